"""Photographs with separate appearances are fitted on their left halves and scored on their right halves."""

import numpy as np
import pytest

from splat_cli.config.presets import load_config
from splat_cli.device import Backend
from splat_cli.eval.evaluate import TrainedModel, evaluate
from splat_cli.eval.metrics import Score
from splat_cli.field.coloring import FieldColoring
from splat_cli.field.parameters import Parameters
from splat_cli.gaussians.splats import Splats
from splat_cli.scene.images.image_set import ImageSet
from tests.field_scenes import lively_field, pictures, some_splats
from tests.reference.metrics import score
from tests.views import ring_of_views

VIEWS, MIDDLE = ring_of_views(6)[:2], 20  # of the 40 px
CONFIG = load_config(None, {"color": "field", "field_appearance": 2, "background": "black"})


@pytest.fixture(scope="module")
def model(backend: Backend) -> TrainedModel:
    splats = some_splats()
    return TrainedModel(Splats.from_arrays(backend, splats), lively_field(backend, splats), None, {})


@pytest.fixture(scope="module")
def photographs(backend: Backend, model: TrainedModel) -> list[np.ndarray]:
    """Photographs uint8 [H, W, 3], in appearances that the field can represent."""
    assert model.field
    looks = Parameters(backend, 0.8 * model.field.embedding_rows()[:2] + 0.3)
    return pictures(backend, some_splats(), VIEWS, FieldColoring(model.field, looks))


def evaluated(model: TrainedModel, photographs: list[np.ndarray]) -> tuple[list[Score], list[np.ndarray]]:
    """Scores and renders uint8 [H, W, 3]."""
    renders: list[np.ndarray] = []
    images = ImageSet(VIEWS, photographs, [None] * len(VIEWS), [])
    found = evaluate(model, images, CONFIG, on_render=lambda index, render: renders.append(render))
    return list(found.values()), renders


def inverted(photographs: list[np.ndarray], columns: slice) -> list[np.ndarray]:
    """The photographs with other pixels in these columns."""
    changed = [photograph.copy() for photograph in photographs]
    for photograph in changed:
        photograph[:, columns] = 255 - photograph[:, columns]
    return changed


def test_right_halves_do_not_reach_the_fit(model: TrainedModel, photographs: list[np.ndarray]) -> None:
    renders = evaluated(model, photographs)[1]
    unseen = evaluated(model, inverted(photographs, slice(MIDDLE, None)))[1]
    np.testing.assert_array_equal(unseen, renders)
    fitted_to = evaluated(model, inverted(photographs, slice(MIDDLE)))[1]
    assert (np.array(fitted_to) != np.array(renders)).any()


def test_only_right_halves_are_scored(model: TrainedModel, photographs: list[np.ndarray]) -> None:
    changed = inverted(photographs, slice(0, MIDDLE - 5))
    scores, renders = evaluated(model, changed)
    right = np.zeros(photographs[0].shape[:2], np.uint8)
    right[:, MIDDLE:] = 255
    for found, render, photograph in zip(scores, renders, changed, strict=True):
        expected = score(render, photograph, right)
        assert found.psnr == pytest.approx(expected.psnr, rel=1e-9)
        assert found.ssim == pytest.approx(expected.ssim, abs=1e-5)
