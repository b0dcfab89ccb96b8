"""Strategies that add, move and remove splats."""

from splat_cli.config import ResolvedConfig
from splat_cli.density.adc import ADCStrategy
from splat_cli.density.error_split import ErrorSplitStrategy
from splat_cli.density.mcmc import ErrorCopyStrategy, MCMCStrategy
from splat_cli.density.strategy import Strategy


def make_strategy(config: ResolvedConfig, extent: float) -> Strategy:
    """The strategy that the settings ask for. extent: the scene's, in world units."""
    if config.strategy == "adc":
        return ADCStrategy(config, extent)
    if config.strategy == "mcmc":
        return MCMCStrategy(config)
    return ErrorSplitStrategy(config) if config.strategy == "splits" else ErrorCopyStrategy(config)
