"""Strategies that add, move and remove splats. A new one is a class and a row in STRATEGIES (docs/extending.md)."""

from collections.abc import Callable

from splat_cli.config import ResolvedConfig
from splat_cli.density.adc import ADCStrategy
from splat_cli.density.error_split import ErrorSplitStrategy
from splat_cli.density.mcmc import ErrorCopyStrategy, MCMCStrategy
from splat_cli.density.strategy import Strategy

STRATEGIES: dict[str, Callable[[ResolvedConfig, float], Strategy]] = {
    "splits": ErrorSplitStrategy,
    "copies": ErrorCopyStrategy,
    "adc": ADCStrategy,
    "mcmc": MCMCStrategy,
}
"""Value of the setting `strategy` -> what makes it, from the settings and the scene's extent in world units."""


def make_strategy(config: ResolvedConfig, extent: float) -> Strategy:
    """The strategy that the settings ask for. extent: the scene's, in world units."""
    return STRATEGIES[config.strategy](config, extent)
