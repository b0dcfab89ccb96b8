"""Settings: defaults, presets, overrides, messages, the saved file, the docs."""

from pathlib import Path

import numpy as np
import pytest

from scripts.figures.settings_table import settings_table
from splat_cli.config import SETTINGS, TrainConfig
from splat_cli.config.presets import (
    changed_settings,
    config_toml,
    load_config,
    preset_names,
    read_settings,
    requested_settings,
)
from splat_cli.errors import UsageError

ROOT = Path(__file__).parents[1]


def test_overrides_come_before_the_preset_and_the_preset_before_the_defaults(tmp_path):
    preset = tmp_path / "mine.toml"
    preset.write_text("steps = 10\nseed = 3\n")
    config = load_config(str(preset), {"seed": 4})
    assert (config.steps, config.seed, config.sh_degree) == (10, 4, 3)


@pytest.mark.parametrize(
    ("line", "name", "value", "other"),
    [
        ("exposure = true", "appearance", "exposure", "'grid'"),
        ("exposure = false", "appearance", "none", "'grid'"),
        ("optimizer = 'visible'", "visible_adam", True, "true"),
        ("optimizer = 'dense'", "visible_adam", False, "true"),
    ],
)
def test_former_settings_are_converted(tmp_path, line, name, value, other):
    former = tmp_path / "config.toml"
    former.write_text(line + "\n")
    assert getattr(load_config(str(former)), name) == value
    former.write_text(f"{line}\n{name} = {other}\n")
    with pytest.raises(UsageError, match=f"is the former name of '{name}': give only one of them"):
        load_config(str(former))


def test_removed_settings_are_ignored(tmp_path):
    former = tmp_path / "config.toml"
    former.write_text("moments = 'bf16'\nseed = 3\n")
    assert load_config(str(former)) == load_config(None, {"seed": 3})


@pytest.mark.parametrize("name", preset_names())
def test_presets_contain_only_changes(name):
    values = read_settings(ROOT / "configs" / f"{name}.toml")
    assert [key for key, value in values.items() if value == SETTINGS[key].default] == []


def test_unknown_preset_lists_the_presets():
    with pytest.raises(UsageError, match=r"no preset 'fats' .*quality"):
        load_config("fats")


def test_unknown_key_names_the_nearest_and_the_file(tmp_path):
    preset = tmp_path / "mine.toml"
    preset.write_text("max_splat = 10\n")
    with pytest.raises(UsageError, match=r"mine\.toml: 'max_splat' is not a setting; did you mean 'max_splats'\?"):
        load_config(str(preset))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("steps = 0", "steps = 0: expected a whole number, 1 to 10000000"),
        ("steps = 1.5", "steps = 1.5: expected a whole number, 1 to 10000000"),
        ("steps = true", "steps = True: expected a whole number, 1 to 10000000"),
        ("sh_degree = 4", "sh_degree = 4: expected a whole number, 0 to 3"),
        ("lr_sh0 = nan", "lr_sh0 = nan: expected a number, 0 or more"),
        ("lr_sh0 = 'fast'", "lr_sh0 = 'fast': expected a number, 0 or more"),
        ("strategy = 'magic'", "strategy = 'magic': expected one of default, splits, copies, adc, mcmc"),
        ("save_at = [100, 0]", "save_at = (100, 0): expected whole numbers, 1 or more"),
        ("save_at = 100", "save_at = 100: expected whole numbers, 1 or more"),
        ("eval = 1", "eval = 1: expected true or false"),
        ("steps = ", "not a TOML file"),
        ("[run]\nsteps = 5", "steps is under [run]"),
        ("[train]\nsteps = 5", "'train' is not a setting"),
    ],
)
def test_wrong_value_names_key_value_and_range(tmp_path, line, message):
    preset = tmp_path / "mine.toml"
    preset.write_text(line + "\n")
    with pytest.raises(UsageError) as error:
        load_config(str(preset))
    assert message in str(error.value)
    assert "mine.toml" in str(error.value)


def test_values_are_checked_on_construction():
    with pytest.raises(UsageError, match="steps = -1"):
        TrainConfig(steps=-1)


def test_numbers_of_numpy_and_paths_are_values():
    """Notebooks pass such values. They are stored as Python's own types, which config.toml can hold."""
    config = TrainConfig(
        steps=np.int64(5), lr_sh0=np.float32(0.5), lr_means=np.int32(1), save_at=[np.uint8(3)], images=Path("pictures")
    )
    values = (config.steps, config.lr_sh0, config.lr_means, config.save_at[0], config.images)
    assert values == (5, 0.5, 1.0, 3, "pictures")
    assert list(map(type, values)) == [int, float, float, int, str]
    for wrong in ({"steps": np.float64(5)}, {"steps": np.True_}, {"images": b"pictures"}, {"save_at": [True]}):
        with pytest.raises(UsageError, match="expected"):
            TrainConfig(**wrong)


def test_saved_configuration_reads_back_equal(tmp_path):
    config = load_config("demo", {"images": 'pictures/"Übung" \\ 1', "max_size": 800, "save_at": (5, 10)})
    path = tmp_path / "config.toml"
    path.write_text(config_toml(config, {"scene": "/some/where"}), encoding="utf-8")
    assert TrainConfig(**read_settings(path)) == config


def test_byte_order_mark_is_ignored(tmp_path):
    """Editors on Windows write one."""
    path = tmp_path / "config.toml"
    path.write_text("steps = 10\n", encoding="utf-8-sig")
    assert read_settings(path) == {"steps": 10}


def test_command_line_text_becomes_values():
    assert SETTINGS["save_at"].parse("7000, 15000") == (7000, 15000)
    assert SETTINGS["save_at"].parse("") == ()
    assert SETTINGS["lr_sh0"].parse("1e-3") == 1e-3
    with pytest.raises(UsageError):
        SETTINGS["save_at"].parse("7000,x")


def test_page_of_settings_is_current():
    assert settings_table() == (ROOT / "docs" / "settings.md").read_text(), (
        "run: python scripts/figures/settings_table.py > docs/settings.md"
    )


@pytest.mark.parametrize(("gpus", "batch", "changed"), [(1, 1, {}), (1, 4, {"batch": 4}), (2, 2, {"gpus": 2})])
def test_batch_equal_to_gpus_is_unchanged(gpus, batch, changed):
    """Runs write the batch that follows from --gpus to config.toml."""
    assert changed_settings(TrainConfig(gpus=gpus, batch=batch)) == changed


def test_only_a_given_appearance_of_none_is_requested():
    """Runs write it to config.toml if nothing is given; trials do not choose exposures if it is given."""
    given = TrainConfig(appearance="none")
    assert (changed_settings(given), requested_settings(given)) == ({}, {"appearance": "none"})
    assert requested_settings(TrainConfig()) == {}
