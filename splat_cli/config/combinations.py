"""Dependent settings: options without effect, and options that exclude each other."""

from __future__ import annotations

from collections.abc import Iterable

from splat_cli.config import SETTINGS, TrainConfig


def unused_options(config: TrainConfig, given: Iterable[str]) -> list[str]:
    """One line per setting in `given` that has no effect with `config`."""
    lines = []
    for name in given:
        option = SETTINGS[name].option
        if missing := missing_option(config, name):
            lines.append(f"{option} does nothing without {missing}")
        elif idle := next((one for one in _options(SETTINGS[name].idle_with) if _is_given(config, one)), ""):
            lines.append(f"{option} does nothing with {idle}")
    return lines


def missing_option(config: TrainConfig, name: str) -> str:
    """The missing option without which the setting `name` has no effect in `config`; empty if none is missing."""
    needs = SETTINGS[name].needs
    for option in _options(needs):
        if _is_given(config, option):
            return missing_option(config, owner_of(option)[0])
    return needs


def _options(alternatives: str) -> list[str]:
    return alternatives.split(" or ") if alternatives else []


def _is_given(config: TrainConfig, option: str) -> bool:
    """Whether a setting has the value that the option names, or is on."""
    owner, value = owner_of(option)
    now = getattr(config, owner)
    return bool(now == SETTINGS[owner].parse(value)) if value else SETTINGS[owner].is_on(now)


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
