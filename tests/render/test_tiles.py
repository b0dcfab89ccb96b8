"""Tile lists of a large image: large splats go through a queue, warps handle small ones."""

from dataclasses import replace

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import COUNT_STRIDE, LARGE_BOX, project
from splat_cli.render.tiles import SCAN_THREADS
from splat_cli.scene.view import View
from tests.reference.inputs import Splats, float32_exact
from tests.reference.project import Options, tile_minima
from tests.reference.random_scene import Scene, hard_scene, ordinary, to_world
from tests.render.on_device import OnDevice, on_device


@pytest.fixture(scope="module")
def wide() -> Scene:
    """520 splats in an image of 27 x 21 tiles; half of them are large, some are needles."""
    scene, rng, num = hard_scene(4), np.random.default_rng(4), 520
    size = np.array([427, 333])
    focal = {"fx": 420.0, "fy": 430.0, "cx": 200.5, "cy": 170.25}
    camera = replace(scene.camera, width=int(size[0]), height=int(size[1]), **focal)
    splats = ordinary(rng, camera, num)
    large = rng.permutation(num)[: num // 2]
    splats.log_scales[large] = rng.uniform(-2.5, 0.5, (num // 2, 3))
    splats.means[:] = to_world(camera, rng.uniform(-0.2 * size, 1.2 * size, (num, 2)), rng.uniform(1.5, 8, num))
    splats.logit_opacities[:] = rng.normal(-3, 1, num)
    rounded = Splats(**{name: float32_exact(values) for name, values in splats.items()})
    return replace(scene, splats=rounded, camera=camera)


@pytest.fixture
def device(backend: Backend, wide: Scene) -> OnDevice:
    device = on_device(backend, wide, Options())
    device.forward()
    return device


def lists_of(device: OnDevice) -> list[np.ndarray]:
    tiles, num_tiles = device.rasterizer.tiles, 27 * 21
    begins, pairs = device.download(tiles.tile_begins), device.download(tiles.splat_from_pair)
    return [pairs[begins[tile] : begins[tile + 1]] for tile in range(num_tiles)]


def test_lists_of_large_and_small_splats(device: OnDevice, wide: Scene) -> None:
    flat, splats = device.flat()
    minima = tile_minima(flat.means2d, flat.conics, wide.camera.width, wide.camera.height)
    slack = (minima - 2 * np.log(255 * flat.opacities)[:, None, None]).reshape(len(splats), -1)
    for listed, column in zip(lists_of(device), slack.T, strict=True):
        unsure = np.isin(splats, listed) & (np.abs(column) < 1e-3)
        np.testing.assert_array_equal(listed, splats[(column <= -1e-3) | unsure])
    touched = (slack <= 0).sum(axis=1)
    num_large = int(device.state.read()["num_large"])
    assert (touched > LARGE_BOX).sum() <= num_large < len(splats) - 100  # a box has more tiles than its ellipse
    assert num_large > 100


def test_second_pass_gives_the_same_lists(device: OnDevice) -> None:
    """Counts and the queue are reset for each view."""
    first = lists_of(device)
    device.forward()
    for before, after in zip(first, lists_of(device), strict=True):
        np.testing.assert_array_equal(before, after)


def test_pair_count_does_not_wrap_at_32_bits(backend: Backend) -> None:
    """65,600 splats fill 4096x4096 pixels. Modulo 2^32, their pairs would fit in a buffer of 5 million."""
    view = View("view", None, 4096, 4096, 1.0, 1.0, 0.0, 0.0, np.eye(4))
    cameras, state = CameraTable(backend, [view]), IterState(backend)
    counts = backend.upload(np.full((65536, COUNT_STRIDE), 65600, np.uint32))
    begins, order = backend.xp.empty(65537, "uint32"), backend.xp.empty(65536, "uint32")
    backend.kernel("raster/sort_tiles", "scan_tiles")(
        (1,), (SCAN_THREADS[backend.name],), cameras.array, state.array, counts, 5_000_000, begins, order
    )
    after = state.read()
    assert (after["overflowed"], after["num_pairs"], after["needed_pairs"]) == (1, 0, 2**32 - 1)


@pytest.mark.parametrize("needed", [2**31, 2**32 - 1])
def test_too_many_pairs_for_an_index_are_refused(device: OnDevice, needed: int) -> None:
    device.state.write(overflowed=1, needed_pairs=needed)
    with pytest.raises(MemoryError, match=r"a view needs .* pairs of a splat and a tile, and .* fit"):
        device.rasterizer.grow_if_overflowed(device.state)


def test_too_many_pairs_for_memory_are_refused(device: OnDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(device.backend), "memory", lambda _: (1_200_000, 0))
    with pytest.raises(MemoryError, match="a view needs 100,000 pairs"):
        device.rasterizer.resize_pairs(100_000)


def test_nothing_is_written_past_the_counted_pairs(device: OnDevice) -> None:
    """Simulates a `project` that misses tiles of `emit_tiles`: here, all tiles of small splats."""
    tiles, projection = device.rasterizer.tiles, device.projection
    device.state.clear_counts()
    project(device.splats, device.cameras, device.state, False, projection)
    projection.tile_counts[...] = 0
    tiles.keys[...] = 7
    tiles.build(device.cameras, device.state, projection)
    num_pairs = int(device.state.read()["num_pairs"])
    assert 0 < num_pairs < len(tiles.keys)
    assert (device.download(tiles.keys)[num_pairs:] == 7).all()
    assert not device.download(projection.tile_counts).any()
