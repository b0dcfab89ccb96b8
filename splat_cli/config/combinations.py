"""Dependent settings: options without effect, and options that exclude each other."""

from __future__ import annotations

from collections.abc import Iterable

from splat_cli.config import SETTINGS, TrainConfig


def unused_options(config: TrainConfig, given: Iterable[str]) -> list[str]:
    """One line per setting in `given` that has no effect with `config`."""
    missing = {name: missing_option(config, name) for name in given}
    return [f"{SETTINGS[name].option} does nothing without {option}" for name, option in missing.items() if option]


def missing_option(config: TrainConfig, name: str) -> str:
    """The missing option without which the setting `name` has no effect in `config`; empty if none is missing."""
    needs = SETTINGS[name].needs
    if not needs:
        return ""
    for option in needs.split(" or "):
        owner, value = owner_of(option)
        now = getattr(config, owner)
        if now == value if value else SETTINGS[owner].is_on(now):
            return missing_option(config, owner)
    return needs


def owner_of(option: str) -> tuple[str, str]:
    """(name of the setting, value or "") of an option: "--color field", "--eval"."""
    option, _, value = option.partition(" ")
    return option.removeprefix("--").replace("-", "_"), value


def single_gpu_options(config: TrainConfig) -> list[str]:
    """Options of `config` that do not work with --gpus, because each GPU would train its own parameters."""
    return _options_where(config, "single_gpu")


def options_not_in_city(config: TrainConfig) -> list[str]:
    """Options of `config` that do not work with `splat city`: cells cannot share their results yet."""
    return _options_where(config, "not_in_city")


def _options_where(config: TrainConfig, fact: str) -> list[str]:
    """Options with one of the values for which a fact is declared, with the value if it holds for certain choices."""
    found = []
    for name, declared in SETTINGS.items():
        value, values = getattr(config, name), getattr(declared, fact)
        if isinstance(values, tuple):
            found += [f"{declared.option} {value}"] if value in values else []
        elif values and value != declared.default and declared.is_on(value):
            found.append(declared.option)
    return found


def trains_in_batches(config: TrainConfig) -> bool:
    """Whether long runs with these settings train in batches by default."""
    return all(SETTINGS[owner_of(option)[0]].batches for option in single_gpu_options(config))


def uses_free_space(config: TrainConfig) -> bool:
    """Whether runs with these settings penalise opacity in free space, where the scene has points."""
    return config.appearance == "grid" if config.free_space is None else config.free_space > 0
