"""Facts about settings: options without effect, options for one GPU, options that a city refuses."""

import contextlib
import io
import shutil

import numpy as np
import pytest

import splat_cli
from splat_cli.config import SETTINGS, TrainConfig
from splat_cli.config.combinations import (
    missing_option,
    options_not_in_city,
    owner_of,
    single_gpu_options,
    trains_in_batches,
    unused_options,
)
from splat_cli.config.presets import load_config, preset_names, requested_settings
from splat_cli.errors import SplatError
from tests.scene.transforms_files import write_point_cloud


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


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--init", "points", "--init-from", "a.ply"], "--init does nothing with --init-from"),
        (["--init-points", "9", "--init", "points"], "--init-points does nothing with --init points"),
        (["--noise-scale", "9", "--strategy", "adc"], "--noise-scale does nothing with --strategy adc"),
        (["--sh-degree-interval", "9", "--frozen", "a.ply"], "--sh-degree-interval does nothing with --frozen"),
        (["--checkpoint-every", "9", "--keep", "0"], "--checkpoint-every does nothing without --keep"),
        (["--lr-shN", "0.1", "--sh-degree", "0"], "--lr-shN does nothing without --sh-degree"),
        (["--opacity-reg", "1", "--lr-opacities", "0.0"], "--opacity-reg does nothing with --lr-opacities 0"),
        (["--depth-maps", "metric", "--depth-weight", "0"], "--depth-maps does nothing with --depth-weight 0"),
    ],
)
def test_option_without_effect_beside_another_is_reported(splat, options, line):
    assert line in splat("train", "nowhere", *options, "--device", "cpu").err
    assert "does nothing" not in splat("train", "nowhere", *options[:2], "--device", "cpu").err


@pytest.mark.parametrize("preset", preset_names())
def test_no_preset_has_settings_without_effect(preset):
    """Batches, cities and Python do not know which settings the preset gave."""
    config = load_config(preset)
    assert unused_options(config, requested_settings(config)) == []


def test_axes_of_files_that_have_none_are_reported(splat):
    options = ["--spz-axes", "rdf", "--device", "cpu", "--init-from"]
    assert "--spz-axes does nothing for a.ply" in splat("train", "nowhere", *options, "a.ply").err
    assert "does nothing" not in splat("train", "nowhere", *options, "a.spz").err


def test_points_to_start_from_use_options_of_points(splat, tmp_path):
    """--init-from with a file of points is --points."""
    write_point_cloud(tmp_path / "points.ply", np.eye(3))
    start = ["--init-from", str(tmp_path / "points.ply")]
    assert "does nothing" not in splat("train", "nowhere", *start, "--init-scale", "2").err


OPTION = ("--lr-camera", "0.1", "--device", "cpu")


def _city(splat, _, folder):
    (folder / "other").touch()  # ends the command when it has read its options
    return splat("city", folder, "-o", folder, *OPTION).err


def _python(*_):
    said = io.StringIO()
    with contextlib.redirect_stderr(said), pytest.raises(SplatError):
        splat_cli.train_scene("nowhere", lr_camera=0.1, device="cpu")
    return said.getvalue()


ENTRANCES = {
    "train": lambda splat, *_: splat("train", "nowhere", *OPTION).err,
    "resume": lambda splat, run, _: splat("train", "--resume", run, *OPTION).err,
    "batch": lambda splat, _, folder: splat("batch", "nowhere", "-o", folder, *OPTION).err,
    "city": _city,
    "python": _python,
}


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_every_command_that_trains_reports_options_without_effect(splat, run_copy, tmp_path, entrance):
    said = ENTRANCES[entrance](splat, run_copy, tmp_path)
    assert "--lr-camera does nothing without --appearance camera" in said


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("render RUN --fps 10 -o OUT", "--fps does nothing without --path and --video"),
        (
            "render RUN --path interpolate --frames 3 --focus 0,0,1",
            "--focus does nothing with --path interpolate",
        ),
        ("render RUN --path interpolate --frames 3 --up 0,0,1 -o OUT", "--up does nothing with --path interpolate"),
        ("render RUN --path RUN/cameras.json --views test -o OUT", "--views does nothing with a path from a file"),
        (
            "render RUN --projection fisheye --size 16x16 --up 0,0,1",
            "--up needs --path or --projection equirectangular",
        ),
        ("export PLY OUT.ply --no-bake", "--no-bake does nothing for files"),
        ("export RUN OUT.html --no-bake", "--no-bake does nothing for a page"),
        ("clean PLY -o OUT.ply --scene nowhere", "--scene does nothing for a file without a run"),
        ("compare RUN RUN --no-page -o OUT.html", "-o does nothing with --no-page"),
        ("check SCENE --frames 5", "--frames does nothing for photographs"),
        ("sfm nowhere -o OUT --frames 5", "--frames does nothing for photographs"),
        ("sfm nowhere -o OUT --invert-masks", "--invert-masks does nothing without masks"),
    ],
)
def test_commands_report_options_without_effect(splat, scene, run_copy, tmp_path, command, line):
    shutil.copy(next(run_copy.rglob("*.ply")), tmp_path / "alone.ply")
    places = {"RUN": run_copy, "PLY": tmp_path / "alone.ply", "OUT": tmp_path / "out", "SCENE": scene}
    for name, place in places.items():
        command = command.replace(name, str(place))
    assert line in splat(*command.split()).err


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--depth-unit", "0.01"], "--depth-unit does nothing: no photograph has a depth map"),
        (["--depth-maps", "metric"], "--depth-maps does nothing: no photograph has a depth map"),
        (["--invert-masks"], "--invert-masks does nothing: no photograph has a mask"),
        (["--coarse-levels", "2"], "--coarse-levels does nothing: these photographs are trained at full size only"),
    ],
)
def test_option_without_its_files_is_reported(splat, scene, tmp_path, options, line):
    run = ["train", scene, "-o", tmp_path / "run", "--steps", "1", "--init", "points", "--no-report"]
    assert line in splat(*run, "--device", "cpu", *options).err


def test_exposure_is_short_for_an_appearance(splat):
    said = splat("train", "nowhere", "--exposure", "--exposure-reg", "0.1", "--device", "cpu").err
    assert "nowhere" in said
    assert "does nothing" not in said


def test_viewer_options_without_viewer_are_reported(splat):
    said = splat("train", "nowhere", "--port", "1234", "--device", "cpu").err
    assert "--port does nothing without --viewer" in said
    assert "--host" not in said


def test_needed_options_are_settings_and_choices():
    for needs in filter(
        None, (text for declared in SETTINGS.values() for text in (declared.needs, declared.idle_with))
    ):
        for owner, value in map(owner_of, needs.split(" or ")):
            assert not value or SETTINGS[owner].show(SETTINGS[owner].parse(value)).removesuffix(".0") == value


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
