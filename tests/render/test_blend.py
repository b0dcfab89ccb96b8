"""Tile lists, blend and blend_backward against references that start from the kernels' projection."""

import numpy as np
import pytest

from splat_cli.device import Backend, ceil_div
from splat_cli.render.blend import FORWARD_WARPS, blend, blend_backward
from tests.compare import BACKWARD, FORWARD, Comparison
from tests.reference import blend as reference
from tests.reference.inputs import Camera, float32_exact
from tests.reference.project import Options
from tests.reference.random_scene import Scene, ordinary
from tests.reference.tiles import TILE, tile_minima
from tests.render.on_device import OnDevice, gradients_of_sums, on_device

# Pixels closer than this to a threshold may fall on the other side of it in float32.
DECIDED = 1e-3


@pytest.fixture
def device(backend: Backend, scene: Scene, options: Options) -> OnDevice:
    device = on_device(backend, scene, options)
    device.forward()
    return device


def test_tile_lists(device: OnDevice, scene: Scene) -> None:
    """Each tile lists the splats that touch it, nearest first, ties by index."""
    flat, splats = device.flat()
    minima = tile_minima(flat.means2d, flat.conics, scene.camera.width, scene.camera.height)
    slack = minima - 2 * np.log(255 * flat.opacities)[:, None, None]
    undecided = np.abs(slack) < 1e-3
    begins = device.download(device.rasterizer.tiles.tile_begins)
    pairs = device.download(device.rasterizer.tiles.splat_from_pair)
    assert begins[0] == 0
    assert begins[slack[0].size] == device.state.read()["num_pairs"]
    for tile, (row, column) in enumerate(np.ndindex(slack.shape[1:])):
        listed = pairs[begins[tile] : begins[tile + 1]]
        unsure = np.isin(splats, listed) & undecided[:, row, column]
        np.testing.assert_array_equal(
            listed, splats[(slack[:, row, column] <= 0) & ~undecided[:, row, column] | unsure]
        )
    assert undecided.mean() < 0.01
    assert len(slack[0]) == ceil_div(scene.camera.height, TILE)


def check_blend(comparison: Comparison, device: OnDevice, scene: Scene) -> reference.Blended:
    """Compares image and transmittance with the reference, which is returned."""
    flat, _ = device.flat()
    expected = reference.forward(flat, scene.background, scene.camera.width, scene.camera.height)
    decided = expected.margin > DECIDED
    comparison.check("blend", "image", device.image()[:, decided].T, expected.image[:, decided].T, FORWARD)
    transmittance = device.plane(device.rasterizer.rendered.final_T)
    comparison.check("blend", "transmittance", transmittance[decided], expected.transmittance[decided], FORWARD)
    assert decided.mean() > 0.95
    return expected


def check_blend_backward(comparison: Comparison, device: OnDevice, scene: Scene, kernel: str) -> None:
    """Compares gradients of a random loss with the reference."""
    flat, splats = device.flat()
    blended = reference.forward(flat, scene.background, scene.camera.width, scene.camera.height)
    d_image = np.random.default_rng(0).normal(size=blended.image.shape) * (blended.margin > DECIDED)
    d_image = d_image.astype(np.float32)
    expected = reference.backward(flat, scene.background, blended, d_image.astype(np.float64))

    device.set_d_image(d_image)
    view = device.cameras, device.state, device.projection, device.rasterizer.tiles, device.rasterizer.rendered
    # On the CPU, and on GPUs before Ampere, matrix_sums has no effect.
    blend_backward(*view, absgrad=kernel == "blend_backward", matrix_sums=kernel == "matrix_sums")
    sums = device.download(device.projection.d_splats)[splats]
    assert not sums[~expected.colors.any(axis=1)].any()  # exactly 0 for splats that no pixel shows
    actual = gradients_of_sums(sums, flat.conics, flat.opacities)
    # Tensor cores cut terms to 11 bits: of long lists, exact sums of such terms differ by 1.02 % in one element.
    tolerance = 2 * BACKWARD if kernel == "matrix_sums" else BACKWARD
    for name in ("means2d", "conics", "opacities", "colors"):
        comparison.check(kernel, name, getattr(actual, name), getattr(expected, name), tolerance)
    if kernel == "blend_backward":
        comparison.check(kernel, "abs_means2d", sums[:, 9:11], expected.abs_means2d, BACKWARD)


def test_blend(comparison: Comparison, device: OnDevice, scene: Scene) -> None:
    check_blend(comparison, device, scene)


@pytest.mark.parametrize("kernel", ["blend_backward", "matrix_sums"])
def test_blend_backward(comparison: Comparison, device: OnDevice, scene: Scene, kernel: str) -> None:
    check_blend_backward(comparison, device, scene, kernel)


def layers(num: int, opacity: float) -> Scene:
    """Splats of about this opacity, before the sigmoid, that all cover an image of two tiles."""
    rng = np.random.default_rng(0)
    camera = Camera(np.eye(4), 20.0, 20.0, 12.0, 8.0, 24, 16)
    splats = ordinary(rng, camera, num)
    splats.log_scales[:] = float32_exact(rng.uniform(0.7, 1.2, (num, 3)) + np.log(splats.means[:, 2:]) / 2)
    splats.logit_opacities[:] = float32_exact(rng.uniform(opacity - 0.2, opacity + 0.2, num))
    photograph = np.zeros((camera.height, camera.width, 3), np.uint8)
    return Scene(splats, camera, np.array([0.25, 0.5, 0.75]), photograph, photograph[..., 0] == 0)


@pytest.mark.parametrize("kernel", ["blend_backward", "matrix_sums"])
def test_lists_of_several_segments(comparison: Comparison, backend: Backend, kernel: str) -> None:
    """513 pairs: two whole segments of 256, and a third with a single pair, which contributes.

    Pictures that are not differentiated are the same without states of segments.
    """
    scene = layers(513, -4.3)
    device = on_device(backend, scene, Options())
    device.forward()
    begins = device.download(device.rasterizer.tiles.tile_begins)
    assert np.diff(begins[:3]).tolist() == [513, 513]
    assert device.state.read()["segments_in_bins"].tolist() == [4, 0, 0, 2]  # those with many hits first
    blended = check_blend(comparison, device, scene)
    assert blended.transmittance.min() > 2e-4  # no pixel ends early
    check_blend_backward(comparison, device, scene, kernel)
    rendered = device.rasterizer.rendered
    rendered.states, rendered.segments = None, None
    rendered.image[:] = 0
    blend(device.cameras, device.state, device.projection, device.rasterizer.tiles, rendered)
    check_blend(comparison, device, scene)


@pytest.mark.parametrize("kernel", ["blend_backward", "matrix_sums"])
def test_blocks_take_several_segments(
    comparison: Comparison, backend: Backend, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("splat_cli.render.blend.BACKWARD_BLOCKS", (4, 0))
    device = on_device(backend, layers(513, -4.3), Options())
    device.forward()
    assert device.state.read()["segments_in_bins"].sum() == 6
    check_blend_backward(comparison, device, layers(513, -4.3), kernel)


def test_splats_behind_the_end_of_all_pixels_have_no_gradient(comparison: Comparison, backend: Backend) -> None:
    scene = layers(64, 1.5)
    device = on_device(backend, scene, Options())
    device.forward()
    blended = check_blend(comparison, device, scene)
    assert 4 < np.flatnonzero(blended.alphas.any(axis=(1, 2)))[-1] < 50
    check_blend_backward(comparison, device, scene, "blend_backward")


def test_half_of_the_pixels_of_a_warp_end_before_later_segments(comparison: Comparison, backend: Backend) -> None:
    """With few tiles, warps of blend own half of the pixels of a warp of blend_backward, and need not save colours."""
    scene = layers(513, -4.3)
    scene.splats.means[:100] = 0, -0.35, 1  # in front, across the first rows
    scene.splats.log_scales[:100] = np.log([5, 0.06, 0.01])
    scene.splats.quats[:100] = 1, 0, 0, 0
    scene.splats.logit_opacities[:100] = 8
    device = on_device(backend, scene, Options())
    device.forward()
    rendered, projection, tiles = device.rasterizer.rendered, device.projection, device.rasterizer.tiles
    rendered.states[...], rendered.segments[...] = np.nan, 9
    device.state.clear_counts()
    splats = projection.means2d, projection.conic_opacity, projection.colors
    lists = device.state.array, tiles.tile_order, tiles.tile_begins, tiles.splat_from_pair
    outputs = rendered.image, rendered.final_T, rendered.states, rendered.segments, rendered.max_segments
    kernel = backend.kernel("raster/blend", "blend", FEW_TILES=1)
    kernel((2,), (32, FORWARD_WARPS[True]), device.cameras.array, *lists, *splats, *outputs)
    segments, nums = device.download(rendered.segments), device.state.read()["segments_in_bins"]
    listed = [tuple(work) for row, num in zip(segments, nums, strict=True) for work in row[:num].tolist()]
    assert sorted(listed) == [(tile, k) for tile in range(2) for k in range(3)]
    assert (segments[nums == 0] == 9).all()
    light = check_blend(comparison, device, scene).transmittance
    assert light[:4].max() < 1e-4 < light[4:].min()
    check_blend_backward(comparison, device, scene, "matrix_sums")
