"""Cameras and points of a resumed scene: which differences are rounding, and which are refused."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from splat_cli.config import TrainConfig
from splat_cli.errors import UsageError
from splat_cli.io.files import UNREADABLE
from splat_cli.run.storage.inputs import changed_inputs, inputs_of, refuse_other_inputs, summary_of, warning_of_copies
from splat_cli.scene.lens import Lens, RollingShutter
from splat_cli.scene.lens.distortion import Polynomial
from splat_cli.scene.view import DepthFile
from tests.views import ring_of_views

VIEWS = ring_of_views(5)  # 3 units from their middle, focal length 35


def run_of(views, points=()):
    """As much of a run's folder as the comparison reads."""
    inputs = inputs_of(views)
    return SimpleNamespace(path=Path("run"), config=TrainConfig, inputs=lambda: inputs, input_points=lambda: points)


def refused(before=VIEWS, now=VIEWS, points=((), ()), **changed):
    """The changes that end a resume, in the brackets of the message; None if it is allowed."""
    try:
        refuse_other_inputs(run_of(before, points[0]), inputs_of(now), points[1], Path("scene"), TrainConfig(**changed))
    except UsageError as error:
        return str(error).partition("(")[2].partition(")")[0]
    return None


def changed(number=1, views=VIEWS, offset=0.0, turn=0.0, **fields):
    """The views, one of them moved by `offset` along x, or turned by `turn` radians, or with other fields."""
    view = views[number]
    w2c = view.w2c.copy()
    w2c[:3, :3] = [[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]] @ w2c[:3, :3]
    w2c[:3, 3] = -w2c[:3, :3] @ (view.center + (offset, 0, 0))
    one = dataclasses.replace(view, w2c=w2c, **fields)
    return [*views[:number], one, *views[number + 1 :]]


def test_all_photographs_must_be_there():
    assert refused() is None
    assert refused(now=VIEWS[1:]) == "a_00.jpg is missing"
    assert refused(before=VIEWS[1:]) == "a_00.jpg is new"


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"offset": 2e-5}, None),
        ({"offset": 4e-5}, "another pose"),
        ({"turn": 0.8e-5}, None),
        ({"turn": -2e-5}, "another pose"),
        ({"fx": 35 + 2e-4}, None),
        ({"fx": 35 - 5e-4}, "another size or focal length"),
        ({"width": 41, "offset": 1.0}, "another pose and another size or focal length"),
        ({"distortion": Polynomial((0.1, 0.01))}, None),
        ({"distortion": Polynomial((0.1, 0.01 + 0.8e-5))}, None),
        ({"distortion": Polynomial((0.1, 0.01 + 1.2e-5))}, "another lens"),
        ({"distortion": Polynomial((0.1, 0.01), fisheye=True)}, "another lens"),
        ({"distortion": None}, "another lens"),
        ({"distortion": None, "lens": Lens(40, 30, 35, 35, 20, 15, Polynomial((0.1, 0.01)))}, None),
        ({"distortion": None, "lens": Lens(40, 30, 35, 35, 20, 15, Polynomial((0.1, 0.02)))}, "another lens"),
        ({"rolling_shutter": RollingShutter((0, 0, 0), (0, 0, 0.01))}, "another lens"),
    ],
)
def test_numbers_may_be_rounded(change, found):
    lens = {"distortion": Polynomial((0.1, 0.01))} if change.keys() & {"distortion", "rolling_shutter"} else {}
    before, now = changed(**lens), changed(**lens | change)
    assert refused(before, now) == (found and f"a_01.jpg has {found}")


@pytest.mark.parametrize(
    "settings", [{"appearance": "camera"}, {"pose_opt": True, "refine_intrinsics": True}, {"pose_opt": True}, {}]
)
def test_numbers_of_cameras_may_change_unless_something_is_trained_for_each(settings):
    """The model exported again, with the cameras in another order."""
    found = refused(now=changed(camera_id=7), **settings)
    assert found == ("a_01.jpg has another camera number" if len(settings) == 2 or "appearance" in settings else None)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"confidence": 1}, {"confidence": 2}),
        ({}, {"confidence": 1}),
        ({"inverse": (1.0, 0.0)}, {"inverse": (1.5, 0.0)}),
        ({"unit": 0.001}, {"unit": 0.002}),
        ({}, {"unit": 0.001}),
    ],
)
def test_other_confidences_scales_or_units_of_a_depth_map_are_named(before, now, tmp_path):
    files = [tmp_path / str(number) for number in range(3)]
    for path in files:
        path.write_text(path.name)

    def views(**depth):
        depth |= {"confidence": files[depth["confidence"]]} if "confidence" in depth else {}
        return changed(depth=DepthFile(files[0], **depth))

    assert refused(views(**before), views(**now)) == "a_01.jpg has another depth map"
    assert refused(views(**now), views(**now)) is None


def test_options_that_change_photographs_leave_poses():
    now = changed(offset=1.0, width=41)
    assert refused(now=now, downscale=2) == refused(now=changed(offset=1.0)) == "a_01.jpg has another pose"
    assert refused(now=changed(width=41), max_size=20) is None


@pytest.mark.parametrize(("offset", "is_refused"), [(0.5, False), (2.0, True)])
def test_positions_far_from_the_origin_are_rounded_more(offset, is_refused):
    """Coordinates of a map: 1e-5 of a thousandth of 1e8."""
    far = VIEWS
    for number in range(len(VIEWS)):
        far = changed(number, far, offset=1e8)
    assert (refused(far, changed(views=far, offset=offset)) is not None) is is_refused


def test_points_may_be_rounded_but_not_others():
    points = np.random.default_rng(0).normal(size=(50, 3)) * 4 + 9
    summary = summary_of(points)
    assert summary == pytest.approx([50, *points.mean(axis=0), np.sqrt(3 * points.var(axis=0).mean())])
    limit = 1e-5 * summary[-1]
    for place, change, found in ((2, 0.8, None), (2, -1.2, "other points"), (4, 1.2, "other points")):
        now = [value + change * limit * (number == place) for number, value in enumerate(summary)]
        assert refused(points=(summary, now)) == found
        assert refused(points=((), now)) is refused(points=(summary, now), crop="0,0,0,1") is None


def test_a_scene_may_have_no_points():
    empty = summary_of(np.zeros((0, 3)))
    assert empty == [0] * 5
    assert refused(points=(empty, empty)) is None
    assert refused(points=(empty, summary_of(np.zeros((1, 3))))) == "other points"


def test_changes_are_those_of_trained_views_and_of_what_all_commands_read(tmp_path):
    """Photographs may be added, and depth maps are read in training only."""
    for name in "ab":
        (tmp_path / name).write_text(name)
    mapped = changed(2, depth=DepthFile(tmp_path / "a"))
    assert changed_inputs(run_of(mapped[:4]), VIEWS) == changed_inputs(run_of(VIEWS[:4]), mapped) == []
    masked = changed(3, views=changed(mask=tmp_path / "a"), mask=tmp_path / "a")
    other = changed(3, views=masked, mask=tmp_path / "b")
    assert changed_inputs(run_of(masked), other) == ["a_03.jpg has another mask"]
    assert changed_inputs(run_of(masked), VIEWS) == ["a_01.jpg has another mask", "a_03.jpg has another mask"]


@pytest.mark.parametrize(
    ("turn", "offset", "is_same"), [(0, 0, True), (1e-3, 3e-3, True), (5e-3, 0, False), (0, 1e-2, False)]
)
def test_photographs_at_one_pose_are_copies(turn, offset, is_same):
    """Unreadable files are not the same file."""
    copy = dataclasses.replace(changed(0, turn=turn, offset=offset)[0], name="copy.jpg")
    inputs = {name: {**one, "files": {"photograph": UNREADABLE}} for name, one in inputs_of([*VIEWS, copy]).items()}
    warning = warning_of_copies([copy], inputs)
    assert warning is None if not is_same else f"(copy.jpg is {VIEWS[0].name})" in warning
    assert warning_of_copies([copy], {"copy.jpg": inputs["copy.jpg"]}) is None
