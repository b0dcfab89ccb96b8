"""Settings in TOML files: presets, and the config.toml of a run."""

import dataclasses
import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from splat_cli.config import ALIASES, REMOVED, REPLACED, SETTINGS, TrainConfig
from splat_cli.errors import UsageError, name_advice
from splat_cli.io.files import regular, resource_dir

_MAX_TOML_LENGTH, _MAX_SEPARATORS = 1 << 18, 50


def preset_names() -> list[str]:
    """Names of the included presets."""
    return sorted(path.stem for path in resource_dir("configs").glob("*.toml"))


def load_config(
    preset: str | os.PathLike[str] | None = None, overrides: Mapping[str, Any] | None = None
) -> TrainConfig:
    """Defaults, then `preset` (a name, or the path of a TOML file), then `overrides`. Raises UsageError."""
    values = read_settings(_preset_path(os.fspath(preset))) if preset is not None else {}
    return with_settings(TrainConfig(**values), overrides or {})


def with_settings(config: TrainConfig, changes: Mapping[str, Any]) -> TrainConfig:
    """`config` with changed settings. UsageError for an invalid name or value."""
    changes = _renamed(changes)
    _reject_unknown(changes)
    return dataclasses.replace(config, **changes)


def read_settings(path: Path) -> dict[str, Any]:
    """The settings in a TOML file: a preset, or the config.toml of a run without its table [run]."""
    table = _renamed(read_toml(path))
    run = table.pop("run", None)
    if isinstance(run, dict) and (misplaced := SETTINGS.keys() & run.keys()):
        raise UsageError(f"{path}: {min(misplaced)} is under [run], which has no settings: move it above that table")
    try:
        _reject_unknown(table)
        return {name: SETTINGS[name].check(value) for name, value in table.items()}
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Content of a TOML file. UsageError if it is unreadable or invalid.

    Bytes that are not UTF-8, such as in file names, become surrogates.
    """
    try:
        with regular(path).open(encoding="utf-8-sig", errors="surrogateescape") as file:
            text = file.read(_MAX_TOML_LENGTH + 1)  # reading a device may never end
        _check_effort(text)
        return tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:  # TOMLDecodeError is a ValueError
        raise UsageError(f"{path}: not a TOML file: {error}") from None


def _check_effort(text: str) -> None:
    """ValueError for keys with many parts: Python's reader takes quadratic time for them."""
    if len(text) > _MAX_TOML_LENGTH:
        raise ValueError(f"it is longer than {_MAX_TOML_LENGTH:,} characters")
    if max(map(_num_separators, text.splitlines()), default=0) > _MAX_SEPARATORS:
        raise ValueError(f"a line holds more than {_MAX_SEPARATORS} dots or brackets")


def _num_separators(line: str) -> int:
    return line.count(".") + line.count("[") + line.count("{")


def config_toml(config: TrainConfig, run: Mapping[str, str]) -> str:
    """All settings of `config` as TOML, grouped, then the table [run] about the run itself."""
    lines: list[str] = []
    group = ""
    for name, declared in SETTINGS.items():
        if declared.group != group:
            group = declared.group
            lines.append(f"\n# {group}" if lines else f"# {group}")
        value = getattr(config, name)
        lines.append(f"# {name} is not set" if value is None else f"{name} = {_toml_value(value)}")
    lines += ["", "[run]", *(f"{key} = {_toml_value(value)}" for key, value in run.items())]
    return "\n".join(lines) + "\n"


def changed_settings(config: TrainConfig) -> dict[str, Any]:
    """Settings that differ from their defaults, and from what runs write in their place."""
    written = TrainConfig(gpus=config.gpus).decided
    found = {}
    for name, declared in SETTINGS.items():
        value = getattr(config, name)
        if value not in (declared.default, written.get(name, declared.default)):
            found[name] = value
    return found


def requested_settings(config: TrainConfig) -> dict[str, Any]:
    """Settings of a new run that differ from their defaults, and given ones that would otherwise be chosen."""
    given = {name: getattr(config, name) for name in config.decided}
    return changed_settings(config) | {name: value for name, value in given.items() if value is not None}


def as_arguments(settings: Mapping[str, Any]) -> list[str]:
    """Settings as arguments of a command, one each."""
    arguments = []
    for name, value in settings.items():
        option = SETTINGS[name].option
        if isinstance(value, bool):
            arguments.append(option if value else option.replace("--", "--no-", 1))
        else:
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            arguments.append(f"{option}={text}")
    return arguments


def _toml_value(value: Any) -> str:
    """JSON is valid TOML for these values, except for one control character that JSON does not escape."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _preset_path(preset: str) -> Path:
    if preset.endswith(".toml"):
        return Path(preset)
    if preset not in preset_names():
        advice = name_advice(preset, preset_names(), "name one, or a .toml file")
        raise UsageError(f"no preset {preset!r} ({', '.join(preset_names())}): {advice}")
    return resource_dir("configs") / f"{preset}.toml"


def _renamed(table: Mapping[str, Any]) -> dict[str, Any]:
    """`table` with the current names of renamed settings, without removed ones, and underscores instead of hyphens.

    UsageError if a setting is given twice.
    """
    table = with_underscores(table)
    names = ALIASES | {old: name for old, (name, _) in REPLACED.items()}
    for old, name in names.items():
        if old in table and name in table:
            raise UsageError(f"{old!r} is the former name of {name!r}: give only one of them")
    return {names.get(old, old): _current_value(old, value) for old, value in table.items() if old not in REMOVED}


def removed_settings(path: Path) -> list[str]:
    """One line for each setting in the config.toml of a run that was on and has been removed since."""
    table = with_underscores(read_toml(path))
    removed = [(name, why) for name, why in REMOVED.items() if table.get(name) is True]
    return [f"{path}: {name} is ignored: {why}, so training goes on without it" for name, why in removed]


def with_underscores(table: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with underscores instead of hyphens in their names. UsageError if both spellings are given."""
    named = {name.replace("-", "_"): value for name, value in table.items()}
    if len(named) < len(table):
        twice = next(name for name in table if "-" in name and name.replace("-", "_") in table)
        raise UsageError(f"{twice!r} and {twice.replace('-', '_')!r} are the same setting: give only one of them")
    return named


def _current_value(name: str, value: Any) -> Any:
    """The value of a renamed setting, converted; other values unchanged."""
    known = isinstance(value, bool | str) and name in REPLACED
    return REPLACED[name][1].get(value, value) if known else value


def _reject_unknown(names: Mapping[str, Any]) -> None:
    for name in names:
        if name not in SETTINGS:
            advice = name_advice(name, SETTINGS, "`splat train --help-all` lists them")
            raise UsageError(f"{name!r} is not a setting; {advice}")
