"""Stages of the backward pass (`bench_kernels.py stages`): each agrees with the reference and blend_backward."""

from dataclasses import dataclass

import numpy as np
import pytest
from blend_stages import KERNELS, OURS, STAGES, Stage, gradients, last_pairs
from stage_passes import count_work

from splat_cli.device import Backend
from tests.compare import BACKWARD, Comparison
from tests.reference import blend as reference
from tests.reference.project import Options
from tests.reference.random_scene import Scene
from tests.render.on_device import VIEW, OnDevice, on_device

DECIDED = 1e-3  # pixels closer to a threshold may fall on the other side of it in float32


@dataclass
class Case:
    """A scene after its forward pass; the reference's image and gradients of visible splats."""

    device: OnDevice
    flat: reference.Flat
    splats: np.ndarray
    blended: reference.Blended
    expected: np.ndarray  # [M, 9]

    def gradients(self, stage: Stage) -> np.ndarray:
        backend = self.device.backend
        rows = backend.xp.zeros((self.device.splats.capacity, stage.columns), "float32")
        view = self.device.rasterizer, self.device.state
        stage.launch(*view, last_pairs(*view), rows)
        found = self.device.download(rows)
        assert not found[np.setdiff1d(np.arange(len(found)), self.splats)].any()
        return gradients(stage, found[self.splats], self.flat.conics, self.flat.opacities)


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def stage_backend(request, open_device) -> Backend:
    return open_device(request.param, KERNELS)


@pytest.fixture(scope="module")
def case(stage_backend: Backend, scene: Scene, options: Options) -> Case:
    device = on_device(stage_backend, scene, options)
    device.forward()
    flat, splats = device.flat()
    blended = reference.forward(flat, scene.background, scene.camera.width, scene.camera.height)
    d_image = np.random.default_rng(0).normal(size=blended.image.shape) * (blended.margin > DECIDED)
    d_image = d_image.astype(np.float32)
    device.set_d_image(d_image)
    found = reference.backward(flat, scene.background, blended, d_image.astype(np.float64))
    columns = found.means2d, found.conics, found.opacities[:, None], found.colors
    return Case(device, flat, splats, blended, np.concatenate(columns, axis=1))


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_gradients(case: Case, stage: Stage) -> None:
    found, ours = case.gradients(stage), case.gradients(OURS)
    comparison = Comparison(case.device.backend)
    for name, columns in {"means2d": [0, 1], "conics": [2, 3, 4], "opacities": [5], "colors": [6, 7, 8]}.items():
        comparison.check(stage.name, name, found[:, columns], case.expected[:, columns], BACKWARD)
        comparison.check(stage.name, f"{name} against blend_backward", found[:, columns], ours[:, columns], BACKWARD)


def test_counts(case: Case) -> None:
    """Compares with brute force on the reference's alphas. A few pixels close to a threshold may differ."""
    work = count_work(case.device.rasterizer, case.device.state, case.device.cameras.views[VIEW])
    on = case.blended.alphas > 0
    num, height, width = on.shape
    assert work.pixels == height * width
    assert work.pairs == case.device.state.read()["num_pairs"]
    assert work.segments == case.device.state.read()["segments_in_bins"].sum()
    padded = np.pad(on, ((0, 0), (0, -height % 16), (0, -width % 16)))
    for name, (w, h) in {"hits": (1, 1), "hits_16x2": (16, 2), "hits_8x4": (8, 4), "hits_8x8": (8, 8)}.items():
        warps = padded.reshape(num, padded.shape[1] // h, h, padded.shape[2] // w, w).any(axis=(2, 4))
        assert getattr(work, name) == pytest.approx(warps.sum(), rel=0.01)
    assert work.hits / 32 <= work.hits_16x2 <= work.warp_visits
