"""Facts about settings: options without effect, options for one GPU, options that a city refuses."""

import pytest

from splat_cli.config import SETTINGS, TrainConfig
from splat_cli.config.combinations import (
    missing_option,
    options_not_in_city,
    owner_of,
    single_gpu_options,
    trains_in_batches,
)


@pytest.mark.parametrize(
    ("options", "owner"),
    [
        (["--test-every", "3"], ["--eval"]),
        (["--field-appearance", "4"], ["--color", "field"]),
        (["--exposure-reg", "0.1"], ["--appearance", "grid"]),
        (["--absgrad"], ["--strategy", "adc"]),
        (["--crop-start"], ["--crop", "0,0,0,1"]),
    ],
)
def test_option_without_effect_is_reported(splat, options, owner):
    """The warning comes before the scene is read: this scene does not exist."""
    warning = (
        f"{options[0]} does nothing without {' '.join(owner[:1] if owner[0] in ('--crop', '--appearance') else owner)}"
    )
    assert warning in splat("train", "nowhere", *options, "--device", "cpu").err
    assert "does nothing" not in splat("train", "nowhere", *options, *owner, "--device", "cpu").err


def test_exposure_is_short_for_an_appearance(splat):
    said = splat("train", "nowhere", "--exposure", "--exposure-reg", "0.1", "--device", "cpu").err
    assert "nowhere" in said
    assert "does nothing" not in said


def test_viewer_options_without_viewer_are_reported(splat):
    said = splat("train", "nowhere", "--port", "1234", "--device", "cpu").err
    assert "--port does nothing without --viewer" in said
    assert "--host" not in said


def test_needed_options_are_settings_and_choices():
    for needs in filter(None, (declared.needs for declared in SETTINGS.values())):
        for owner, value in map(owner_of, needs.split(" or ")):
            assert not value or value in SETTINGS[owner].choices


@pytest.mark.parametrize(
    ("settings", "name", "missing"),
    [
        ({}, "lr_field_features", "--color field"),
        ({"color": "field"}, "lr_field_features", ""),
        ({"color": "field", "field_features": 0}, "lr_field_features", "--field-features"),
        ({"refine_intrinsics": True}, "intrinsics_reg", "--pose-opt"),
        ({"appearance": "camera"}, "lr_grid", "--appearance grid"),
        ({"frozen": "a.spz"}, "spz_axes", ""),
        ({}, "spz_axes", "--init-from or --frozen"),
    ],
)
def test_missing_option_follows_the_chain(settings, name, missing):
    assert missing_option(TrainConfig(**settings), name) == missing


def test_single_gpu_options_differ_from_the_default_and_are_on():
    assert single_gpu_options(TrainConfig(depth_weight=0.0)) == []
    assert single_gpu_options(TrainConfig(depth_weight=0.1, color="field")) == ["--color field", "--depth-weight"]
    assert options_not_in_city(TrainConfig(appearance="exposure", gpus=1)) == []
    assert options_not_in_city(TrainConfig(appearance="grid", gpus=2)) == ["--gpus", "--appearance grid"]


def test_long_runs_train_in_batches_unless_they_train_more_than_splats():
    assert trains_in_batches(TrainConfig(color="field"))
    assert not trains_in_batches(TrainConfig(color="field", robust=True))
