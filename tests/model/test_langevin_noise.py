"""Exploration noise against 3DGS-MCMC, eq. 9: strength by opacity, and covariance."""

import dataclasses

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.gaussians.splats import Splats
from splat_cli.model.model import zero_moments
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import LEARNING_RATES, IterState
from splat_cli.render.project import RasterizationSettings, Update
from splat_cli.render.rasterizer import Rasterizer
from tests.gaussians.some_splats import some_splats
from tests.views import ring_of_views

NUM, RATE, NOISE_SCALE = 20_000, 0.1, 0.5
LOG_SCALES = np.log(np.array([0.5, 1.0, 2.0], np.float32))


def moved(
    backend: Backend, opacity: float, quat: tuple[float, ...] = (1, 0, 0, 0), log_scales: np.ndarray = LOG_SCALES
) -> np.ndarray:
    """Displacements of NUM equal splats by an update without gradients, float64 [NUM, 3]."""
    arrays = dataclasses.replace(
        some_splats(NUM, degree=0),
        log_scales=np.tile(log_scales, (NUM, 1)),
        quats=np.tile(np.array(quat, np.float32), (NUM, 1)),
        logit_opacities=np.full(NUM, np.log(opacity / (1 - opacity)), np.float32),
        means=np.zeros((NUM, 3), np.float32),
    )
    splats = Splats.from_arrays(backend, arrays)
    rates = [RATE if name == "means" else 0.0 for name in LEARNING_RATES]
    state = IterState(backend, step=3, num_splats=NUM, lr=rates)
    view = ring_of_views(1)[0]
    behind = dataclasses.replace(view, w2c=np.diag([1.0, 1.0, -1.0, 1.0]) @ view.w2c)
    photo = backend.upload(np.zeros((view.height, view.width, 3), np.uint8))
    cameras = CameraTable(backend, [behind], [photo])
    rasterizer = Rasterizer(backend, cameras, splats.capacity, RasterizationSettings(training=True))
    rasterizer.forward(splats, state)
    moments = zero_moments(splats)
    rasterizer.update(splats, state, Update(moments, noise_seed=7, noise_scale=NOISE_SCALE))
    return backend.download(splats.params)[:3, :NUM].T.astype(np.float64)


@pytest.mark.parametrize("opacity", [0.001, 0.005, 0.02, 0.05])
def test_strength_falls_with_opacity(backend: Backend, opacity: float) -> None:
    """sigmoid(-100 (opacity - 0.005)) is 0.5 at the opacity below which splats are relocated."""
    deviation = moved(backend, opacity).std(axis=0)
    strength = RATE * NOISE_SCALE / (1 + np.exp(100 * (opacity - 0.005)))
    np.testing.assert_allclose(deviation, strength * np.exp(LOG_SCALES) ** 2, rtol=0.03)


def test_noise_has_the_covariance_of_the_splat_squared(backend: Backend) -> None:
    """A rotation by 90 degrees about z swaps the axes x and y; the noise is normal, with mean 0."""
    noise = moved(backend, 0.001, (np.sqrt(0.5), 0, 0, np.sqrt(0.5)))
    straight = moved(backend, 0.001)
    np.testing.assert_allclose(noise.std(axis=0), straight.std(axis=0)[[1, 0, 2]], rtol=0.03)
    deviations = noise / noise.std(axis=0)
    assert np.abs(deviations.mean(axis=0)).max() < 0.03
    assert np.abs((deviations**4).mean(axis=0) - 3).max() < 0.2
    assert np.abs(np.corrcoef(noise.T) - np.eye(3)).max() < 0.03


def test_splats_too_large_for_float32_stay(backend: Backend) -> None:
    assert not moved(backend, 0.001, log_scales=LOG_SCALES + np.float32(60)).any()
