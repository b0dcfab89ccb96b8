"""What cleaning finds in a scene of a textured wall: floaters, hidden and lone splats; and what it leaves."""

from dataclasses import replace

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.eval.cleaning import Photographed, Reason, is_unneeded, reasons_by_shape, reasons_by_views
from splat_cli.gaussians.arrays import SH_C0, SplatArrays
from splat_cli.gaussians.editing.edits import merged
from splat_cli.gaussians.splats import Splats
from splat_cli.render.images import to_8bit
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.view import View
from tests.views import render_view, ring_of_views

SIDE = 40


def balls(means: np.ndarray, size: float, logit: float, colors: np.ndarray | float = 0.5) -> SplatArrays:
    means = np.asarray(means, np.float32).reshape(-1, 3)
    n = len(means)
    return SplatArrays(
        means,
        np.full((n, 3), np.log(size), np.float32),
        np.tile(np.float32([1, 0, 0, 0]), (n, 1)),
        np.full(n, logit, np.float32),
        np.broadcast_to((np.asarray(colors) - 0.5) / SH_C0, (n, 3)).astype(np.float32),
        np.zeros((n, 0, 3), np.float32),
    )


def wall() -> SplatArrays:
    """Opaque balls of many colours across all views, at z = 4."""
    x, y = np.meshgrid(np.linspace(-2.6, 2.6, SIDE), np.linspace(-1.9, 1.9, SIDE))
    means = np.stack([x.ravel(), y.ravel(), np.full(SIDE * SIDE, 4.0)], axis=1)
    colors = 0.5 + 0.3 * np.sin(np.stack([2 * x.ravel(), 3 * y.ravel(), x.ravel() + y.ravel()], axis=1))
    return balls(means, 0.1, 4.0, colors)


def views() -> list[View]:
    """Six cameras side by side, which look at the wall."""
    template, moved = ring_of_views(1, width=80, height=60)[0], []
    for number in range(6):
        w2c = np.eye(4)
        w2c[0, 3] = 0.4 * (number - 2.5)
        moved.append(replace(template, name=f"{number}.jpg", w2c=w2c, fx=60.0, fy=60.0, cx=40.0, cy=30.0))
    return moved


def photographed(backend: Backend, scene: SplatArrays, loss: float = 0.0) -> Photographed:
    """Photographs of the scene; its points are the wall's balls. loss: PSNR that each removed splat costs."""
    points, cameras = wall(), views()
    images = [to_8bit(render_view(backend, Splats.from_arrays(backend, scene), view)) for view in cameras]
    colors = (255 * (0.5 + SH_C0 * points.sh0)).round().astype(np.uint8)
    photographs = ImageSet(cameras, images, [None] * len(images), [])
    return Photographed(photographs, points.means, colors, lambda splats: 30 + loss * len(splats))


def reasons(backend: Backend, seen: Photographed | None, *others: SplatArrays, strength: float = 1) -> np.ndarray:
    """Reasons of splats that are added to the wall, of which less than 1 % go."""
    found = reasons_by_views(backend, merged([wall(), *others]), views(), seen, strength)
    assert (found[: SIDE * SIDE] != Reason.NONE).mean() < 0.01
    return found[SIDE * SIDE :]


def test_a_floater_stands_before_points_that_photographs_show(backend: Backend) -> None:
    """The photographs do not show the splats; one is opaque, one is haze, one lies on the wall."""
    opaque, haze, on_wall = balls((0, 0, 2), 0.12, 4), balls((1, 0.3, 2), 0.12, -2), balls((0, 0, 3.9), 0.15, 0)
    found = reasons(backend, photographed(backend, wall()), opaque, haze, on_wall)
    assert found.tolist() == [Reason.FLOATER, Reason.FLOATER, Reason.NONE]


def test_splats_that_photographs_show_are_not_floaters(backend: Backend) -> None:
    """A bright object without points stands in front of the wall: rays to points behind it are not clear."""
    thing = balls((0, 0, 2), 0.12, 6, 1.0)
    seen = photographed(backend, merged([wall(), thing]))
    assert reasons(backend, seen, thing).tolist() == [Reason.NONE]


def test_a_splat_at_points_is_not_a_floater(backend: Backend) -> None:
    """It has points of its own, though photographs show the wall on most rays that pass its edges."""
    seen, thing = photographed(backend, wall()), balls((0, 0, 2), 0.12, -2)
    assert reasons(backend, seen, thing).tolist() == [Reason.FLOATER]
    own = np.float32([0, 0, 2]) + np.random.default_rng(0).uniform(-0.12, 0.12, (300, 3)).astype(np.float32)
    colors = np.concatenate([seen.colors, np.zeros((300, 3), np.uint8)])
    seen = replace(seen, points=np.concatenate([seen.points, own]), colors=colors)
    assert reasons(backend, seen, thing).tolist() == [Reason.NONE]


def test_colors_are_looked_for_in_neighboring_pixels_outside_of_masks(backend: Backend) -> None:
    """Every other row of the photographs is black."""
    seen, floater = photographed(backend, wall()), balls((0, 0, 2), 0.12, -2)
    for image in seen.photographs.images:
        image[::2] = 0
    assert reasons(backend, seen, floater).tolist() == [Reason.FLOATER]
    masks = [np.zeros(image.shape[:2], np.uint8) for image in seen.photographs.images]
    masked = replace(seen, photographs=seen.photographs._replace(masks=masks))
    assert reasons(backend, masked, floater).tolist() == [Reason.NONE]


def test_a_weaker_cleaning_leaves_floaters_on_few_rays(backend: Backend) -> None:
    seen, small = photographed(backend, wall()), balls((0, 0, 2), 0.03, 0)
    assert reasons(backend, seen, small).tolist() == [Reason.FLOATER]
    assert reasons(backend, seen, small, strength=0.01).tolist() == [Reason.NONE]


def test_without_photographs_there_are_no_floaters(backend: Backend) -> None:
    assert reasons(backend, None, balls((0, 0, 2), 0.12, 4)).tolist() == [Reason.NONE]


def test_floaters_that_the_photographs_need_stay_largest_first(backend: Backend) -> None:
    """Four floaters, each of which costs 0.0045 dB, of which 0.012 may be lost at this strength."""
    floaters = [balls(((-1.2 + 0.8 * n), 0, 2), 0.05 + 0.02 * n, -2) for n in range(4)]
    seen = photographed(backend, wall(), loss=0.0045)
    found = reasons(backend, seen, *floaters, strength=0.8)
    assert found.tolist() == [Reason.FLOATER] * 2 + [Reason.NONE] * 2


def test_hidden_splats_are_unneeded_also_behind_floaters(backend: Backend) -> None:
    """A curtain of floaters hides the whole wall, which stays all the same."""
    behind = balls([[0, 0, 6], [1, 1, 7]], 0.1, 4)
    assert reasons(backend, photographed(backend, wall()), behind).tolist() == [Reason.UNNEEDED] * 2
    curtain = replace(wall(), means=wall().means * np.float32(0.4))
    found = reasons(backend, photographed(backend, wall()), behind, curtain)
    assert found[:2].tolist() == [Reason.UNNEEDED] * 2
    assert (found[2:] == Reason.FLOATER).mean() > 0.9
    counted: list[int] = []
    reasons_by_views(backend, merged([wall(), curtain]), views(), photographed(backend, wall()), 1, counted.append)
    assert sum(counted) == 6  # views, though they are rendered twice


def test_splats_that_together_make_a_thousandth_of_the_pixels_are_unneeded() -> None:
    """The smallest ones, up to the limit, which strength multiplies; also splats that no view shows."""
    pixels = np.float32([500, 0, 0.5, 0.35, 496.85, 2.3])
    assert is_unneeded(pixels, 1).tolist() == [False, True, True, True, False, False]
    assert is_unneeded(pixels, 0.4).tolist() == [False, True, False, True, False, False]
    assert is_unneeded(pixels, 3.2).tolist() == [False, True, True, True, False, True]
    assert is_unneeded(pixels[:0], 1).tolist() == []


def test_a_lone_splat_that_few_views_see_is_removed(backend: Backend) -> None:
    """It is in the corner of one view; without photographs, only its isolation tells."""
    corner = balls((-2.85, 0, 3), 0.04, 2)
    assert reasons(backend, None, corner).tolist() == [Reason.ALONE]
    middle = balls((0, 0, 3), 0.04, 2)
    assert reasons(backend, None, middle).tolist() == [Reason.NONE]


@pytest.mark.parametrize("strength", [0.1, 1, 8])
def test_files_are_cleaned_by_shape(strength: float) -> None:
    """Faint, lone and well placed splats; a greater strength takes more."""
    others = [
        balls((0, 0, 4), 0.1, -6),
        balls((0, 0, 1), 0.1, 2),
        balls((0, 0, 4), 0.1, 2),
        balls((0, 0, 4), 0.1, -3.5),
    ]
    found = reasons_by_shape(merged([wall(), *others]), strength)[SIDE * SIDE :]
    faint, alone, placed, pale = (found != Reason.NONE).tolist()
    assert (faint, alone, placed, pale) == (strength >= 1, True, False, strength == 8)


def test_no_splats(backend: Backend) -> None:
    empty = wall().select(slice(0))
    assert reasons_by_views(backend, empty, views(), None, 1).shape == reasons_by_shape(empty, 1).shape == (0,)
