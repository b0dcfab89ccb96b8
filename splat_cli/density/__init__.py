"""Strategies that add, move and remove splats."""

from splat_cli.config import TrainConfig
from splat_cli.density.adc import AdaptiveDensityControl
from splat_cli.density.mcmc import ErrorGuidedChain, MarkovChain
from splat_cli.density.split_chain import ErrorGuidedSplitChain
from splat_cli.density.strategy import Strategy
from splat_cli.milestones import milestones


def make_strategy(config: TrainConfig, extent: float) -> Strategy:
    """The strategy that the settings ask for. extent: the scene's, in world units."""
    if config.strategy == "adc":
        return AdaptiveDensityControl(config, extent)
    if config.strategy == "mcmc":
        return MarkovChain(config)
    return ErrorGuidedSplitChain(config) if milestones(config).splits else ErrorGuidedChain(config)
