"""Densification strategies. To add one: a class and a row in STRATEGIES (docs/extending.md)."""

from collections.abc import Callable

from splat_cli.config import ResolvedConfig
from splat_cli.density.adc import ADCStrategy
from splat_cli.density.mcmc import ErrorCopyStrategy, ErrorSplitStrategy, MCMCStrategy
from splat_cli.density.strategy import Strategy

STRATEGIES: dict[str, Callable[[ResolvedConfig, float], Strategy]] = {
    "splits": ErrorSplitStrategy,
    "copies": ErrorCopyStrategy,
    "adc": ADCStrategy,
    "mcmc": MCMCStrategy,
}
"""Value of the setting `strategy` -> constructor, called with the settings and the scene's extent (world units)."""


def make_strategy(config: ResolvedConfig, extent: float) -> Strategy:
    """The strategy named by the settings. extent: size of the scene in world units."""
    return STRATEGIES[config.strategy](config, extent)
