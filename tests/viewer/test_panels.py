"""Panels of the live viewer: saved views, comparison with photographs."""

from types import SimpleNamespace

import numpy as np

from splat_cli.scene.cameras_json import read_cameras
from splat_cli.viewer.panels import SavedViews, compose, padded
from tests.viewer.stand_ins import Panel, browser_camera
from tests.views import ring_of_views


def test_saved_views_can_be_rendered(tmp_path):
    panel, views = Panel(), ring_of_views()
    keeping = SavedViews(panel, tmp_path / "views.json", 0.1)
    for view in views[:3]:
        panel.buttons["Save this view"](SimpleNamespace(client=SimpleNamespace(camera=browser_camera(view))))
    panel.buttons["Remove the last"](None)
    read = read_cameras(tmp_path / "views.json")
    assert [view.name for view in read] == ["view_000", "view_001"] == [view.name for view in keeping.views]
    np.testing.assert_allclose(read[1].w2c, views[1].w2c, atol=1e-9)
    for _ in range(3):
        panel.buttons["Remove the last"](None)
    assert not (tmp_path / "views.json").exists()


def test_saved_views_state_the_origin(tmp_path):
    panel, (view, *_) = Panel(), ring_of_views()
    SavedViews(panel, tmp_path / "views.json", 0.1, (500.0, -30.0, 0.5))
    panel.buttons["Save this view"](SimpleNamespace(client=SimpleNamespace(camera=browser_camera(view))))
    (moved,) = read_cameras(tmp_path / "views.json", np.array([400.0, 0.0, 0.0]))
    np.testing.assert_allclose(moved.center, view.center + [100.0, -30.0, 0.5], atol=1e-9)


def test_saved_views_do_not_replace_files(tmp_path):
    """Also those that another viewer of the run saves at the same time."""
    (tmp_path / "views.json").touch()
    panels, views = [Panel(), Panel()], ring_of_views()
    keeping = [SavedViews(panel, tmp_path / "views.json", 0.1) for panel in panels]
    for panel, count in zip(panels, (2, 3), strict=True):
        for view in views[:count]:
            panel.buttons["Save this view"](SimpleNamespace(client=SimpleNamespace(camera=browser_camera(view))))
    assert [saved.file for saved in keeping] == [tmp_path / "views-2.json", tmp_path / "views-3.json"]
    assert [len(read_cameras(saved.file)) for saved in keeping] == [2, 3]
    assert (tmp_path / "views.json").read_bytes() == b""


def test_comparing():
    rendered, photograph = np.full((4, 10, 3), 10, np.uint8), np.full((4, 10, 3), 30, np.uint8)
    both = compose(rendered, photograph, 0.4, False)
    assert (both[:, :4] == 30).all()
    assert (both[:, 5:] == 10).all()
    assert (compose(rendered, photograph, 1.0, False) == photograph).all()
    assert (compose(rendered, photograph, 0.5, True) == 80).all()
    assert compose(rendered, None, 0.5, True) is rendered


def test_portraits_are_padded_to_squares():
    portrait, landscape = np.full((20, 11, 3), 200, np.uint8), np.full((11, 20, 3), 200, np.uint8)
    square = padded(portrait)
    assert square.shape == (20, 20, 3)
    assert (square[:, 4:15] == portrait).all()
    assert (square[:, :4] == square[:, 15:16]).all()
    assert (padded(landscape) == landscape).all()
