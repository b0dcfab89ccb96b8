"""Splats as the browser shows them: covariances, colours, opacities, crop box."""

from types import SimpleNamespace

import numpy as np

from splat_cli.gaussians.splats import Splats
from splat_cli.scene.crop import Box
from splat_cli.viewer.window import Window, appearance
from tests.gaussians.some_splats import some_splats
from tests.reference.sh import basis
from tests.views import ring_of_views


def test_covariances_and_colours(backend):
    splats = some_splats(40)
    splats.logit_opacities[:] = np.linspace(-8, 3, 40)  # the first splats are too transparent to be kept
    splats.means[20, 1] = np.nan
    look = appearance(Splats.from_arrays(backend, splats))
    opacities = 1 / (1 + np.exp(-splats.logit_opacities))
    kept = (opacities >= 1 / 255) & (np.arange(40) != 20)
    assert 20 < kept.sum() < 39
    np.testing.assert_allclose(look.centers, splats.means[kept], atol=1e-6)
    np.testing.assert_allclose(look.opacities[:, 0], opacities[kept], atol=1e-6)
    np.testing.assert_allclose(look.rgbs, np.clip(0.5 + 0.28209479 * splats.sh0[kept], 0, 1), atol=1e-6)
    for array, rounded in zip((look.rgbs, look.opacities), look.arrays()[2:], strict=True):
        np.testing.assert_allclose(rounded / 255, array, atol=0.501 / 255)
    lengths, variances = np.exp(2 * np.sort(splats.log_scales[kept], axis=1)), np.linalg.eigvalsh(look.covariances)
    np.testing.assert_allclose(variances, lengths, rtol=2e-3, atol=2e-3)
    w, x, y, z = (splats.quats[0] / np.linalg.norm(splats.quats[0])).astype(np.float64)
    first = appearance(Splats.from_arrays(backend, _opaque(splats)))
    axis = np.array([1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)])
    variance = np.exp(2 * splats.log_scales[0, 0])
    np.testing.assert_allclose(first.covariances[0] @ axis, variance * axis, rtol=1e-3, atol=1e-3)


def test_colours_are_the_mean_over_the_views_that_show_a_splat(backend):
    splats = _opaque(some_splats(30, color=0.3))
    splats.means *= 0.2
    splats.log_scales -= 3
    splats.means[29] = (0, 100, 0)  # outside of all views
    views = ring_of_views()
    directions = splats.means - np.array([view.center for view in views])[:, None].astype(np.float64)
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    coefficients = np.concatenate([splats.sh0[:, None], splats.shN], axis=1)
    colors = np.maximum(0.5 + np.einsum("vnk,nkc->vnc", basis(directions, 3), coefficients), 0)
    expected = np.clip(colors.mean(axis=0), 0, 1)
    expected[29] = np.clip(0.5 + 0.28209479 * splats.sh0[29], 0, 1)
    for antialiased in (False, True):
        look = appearance(Splats.from_arrays(backend, splats), views, antialiased=antialiased)
        np.testing.assert_allclose(look.rgbs, expected, atol=2e-3)


def test_colours_of_one_camera_and_of_splats_that_it_does_not_show(backend):
    splats = _opaque(some_splats(30, color=0.3))
    splats.means *= 0.2
    splats.log_scales -= 3
    splats.logit_opacities[0] = -8  # not shown: the others' numbers differ from their places
    splats.means[29] = (0, 100, 0)  # outside of the view
    on_device, view = Splats.from_arrays(backend, splats), ring_of_views()[2]
    directions = splats.means - view.center
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    coefficients = np.concatenate([splats.sh0[:, None], splats.shN], axis=1)
    expected = np.clip(0.5 + np.einsum("nk,nkc->nc", basis(directions, 3), coefficients), 0, 1)
    look = appearance(on_device)
    seen = look.seen_from(view, on_device)
    np.testing.assert_allclose(seen.rgbs[:-1], expected[1:29], atol=2e-3)
    np.testing.assert_array_equal(seen.rgbs[-1], look.rgbs[-1])


def test_colours_are_computed_once_where_the_camera_rests(monkeypatch):
    """Without a camera, these are mean colours again."""
    eyes, drawn, views = [None], [], ring_of_views()

    def draw(kind):
        drawn.append(kind)
        window._drawn = eyes[-1]

    window = SimpleNamespace(
        **{"_eye": None, "_since": 0.0, "_drawn": None, "_camera": lambda: eyes[-1], "work": lambda: True},
        **{"_within_memory": lambda task: task(), "_recolor": lambda: draw("camera"), "_redraw": lambda: draw("mean")},
    )
    monkeypatch.setattr("splat_cli.viewer.window.time", SimpleNamespace(perf_counter=lambda: len(eyes) / 10))
    for view, tenths, expected in [(None, 5, 0), (views[0], 3, 0), (views[1], 9, 1), (None, 9, 2)]:
        for _ in range(tenths):
            eyes.append(view)
            Window.wait(window)
        assert len(drawn) == expected
    assert drawn == ["camera", "mean"]


def test_several_browsers_have_no_common_camera():
    for clients in ({}, {1: SimpleNamespace(), 2: SimpleNamespace()}):
        server = SimpleNamespace(get_clients=lambda found=clients: found)
        assert Window._camera(SimpleNamespace(_server=server)) is None


def test_opacities_stay_without_antialiasing(backend):
    splats = _opaque(some_splats(60))
    look = appearance(Splats.from_arrays(backend, splats), ring_of_views(), antialiased=False)
    np.testing.assert_allclose(look.opacities, 1 / (1 + np.exp(-3)), atol=1e-6)


def _opaque(splats):
    splats.logit_opacities[:] = 3
    return splats


def test_small_splats_are_as_transparent_as_in_training(backend):
    splats = some_splats(60)
    splats.log_scales -= 5
    splats = _opaque(splats)
    on_device = Splats.from_arrays(backend, splats)
    raw, baked = appearance(on_device), appearance(on_device, ring_of_views())
    assert baked.opacities.mean() < 0.5 * raw.opacities.mean()


def test_box_hides_splats_outside(backend):
    look = appearance(Splats.from_arrays(backend, _opaque(some_splats(100))))
    inside = look.inside(Box((-1, -1, -1), (1, 1, 1)))
    assert 0 < len(inside.centers) < len(look.centers)
    assert np.abs(inside.centers).max() <= 1
    assert len({len(array) for array in inside.arrays()}) == 1
