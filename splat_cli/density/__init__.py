"""Strategies that add, move and remove splats."""

from splat_cli.config import TrainConfig
from splat_cli.density.adc import AdaptiveDensityControl
from splat_cli.density.mcmc import ErrorGuidedChain, MarkovChain
from splat_cli.density.splits import ErrorGuidedSplits
from splat_cli.density.strategy import Strategy


def make_strategy(config: TrainConfig, extent: float) -> Strategy:
    """The strategy that the settings ask for. extent: the scene's, in world units."""
    if config.strategy == "adc":
        return AdaptiveDensityControl(config, extent)
    if config.strategy == "splits":
        return ErrorGuidedSplits(config)
    return MarkovChain(config) if config.strategy == "mcmc" else ErrorGuidedChain(config)
