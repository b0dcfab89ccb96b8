"""Training with a colour field: the field learns, resumes with the same bits, and fits photographs."""

import numpy as np
import pytest

from splat_cli.config.presets import load_config
from splat_cli.eval.held_out_fit import fit_held_out_embeddings, half
from splat_cli.eval.metrics import psnr
from splat_cli.field.coloring import FieldColoring
from splat_cli.field.parameters import Parameters
from splat_cli.gaussians.splats import Splats
from splat_cli.run.checkpoints.checkpointer import checkpoint_paths
from splat_cli.run.checkpoints.file import read_checkpoint, write_checkpoint
from splat_cli.run.checkpoints.state import capture_state, restore_state
from splat_cli.scene.images.image_set import ImageSet
from tests.field_scenes import lively_field, pictures, some_splats, tinted_trainer
from tests.views import ring_of_views


def test_photographs_with_different_looks_need_appearances(backend):
    plain, tinted = tinted_trainer(backend, field_appearance=0), tinted_trainer(backend)
    errors = []
    for trainer in (plain, tinted):
        trainer.run_until(160)
        errors.append(10 ** (-float(trainer.state.read()["psnr"]) / 10))
        assert not any(trainer.nonfinite_counts.values())
    assert errors[1] < 0.6 * errors[0]


@pytest.mark.parametrize(
    "settings",
    [{}, {"field_features": 3, "field_sh_degree": 1, "sh_degree_interval": 1, "batch": 2}],
    ids=["colours", "features"],
)
def test_resumed_training_ends_with_the_same_bits(settings, tmp_path):
    whole = tinted_trainer(densify_start=15, **settings)
    whole.run_until(20)
    checkpoint = capture_state(whole)
    checkpoint.metadata["seconds"] = 0.0
    write_checkpoint(tmp_path / "step_20.npz", checkpoint)
    checkpoint = read_checkpoint(tmp_path / "step_20.npz")
    whole.run_until(40)
    features = whole.splats.to_arrays().features
    assert features is None or features.any(axis=0).all()
    resumed = tinted_trainer(densify_start=15, **settings)
    restore_state(resumed, checkpoint)
    resumed.run_until(40)
    np.testing.assert_array_equal(
        resumed.splats.params[:, : resumed.model.num], whole.splats.params[:, : whole.model.num]
    )
    for name, array in whole.joint.field.arrays().items():
        np.testing.assert_array_equal(resumed.joint.field.arrays()[name], array)


def test_held_out_photographs_are_fitted_on_their_left_halves(backend):
    """The photographs look like mixtures of training photographs, and fit on their right halves, too."""
    splats, views = some_splats(), ring_of_views(6)
    field = lively_field(backend, splats)
    looks = field.embedding_rows()[:3] * 0.8 + 0.3
    true = FieldColoring(field, Parameters(backend, looks))
    images = pictures(backend, splats, views[:3], true)
    photographs = ImageSet(views[:3], images, [None] * 3, [])
    before = {name: backend.download(array) for name, array in field.arrays().items()}
    fitted = fit_held_out_embeddings(
        Splats.from_arrays(backend, splats), field, photographs, load_config(), (0.0, 0.0, 0.0)
    )
    mean = FieldColoring(field, Parameters(backend, np.tile(field.embedding_rows().mean(axis=0), (3, 1))))
    rights = [
        np.stack(shown)[:, :, 20:]
        for shown in (images, *(pictures(backend, splats, views[:3], c) for c in (fitted, mean)))
    ]
    assert psnr(rights[1], rights[0]) > psnr(rights[2], rights[0]) + 10
    for name, array in field.arrays().items():
        np.testing.assert_array_equal(backend.download(array), before[name])
    assert not any(backend.download(parameters.gradients).any() for parameters in field.parts().values())


def test_halves_share_no_pixel_and_respect_masks():
    view = ring_of_views(1)[0]
    mask = np.zeros((view.height, view.width), np.uint8)
    mask[5:9] = 255
    photographs = ImageSet([view, view], [np.zeros((view.height, view.width, 3), np.uint8)] * 2, [None, mask], [])
    left, right = half(photographs, right=False).masks, half(photographs, right=True).masks
    for whole, one, other in zip((np.full_like(mask, 255), mask), left, right, strict=True):
        np.testing.assert_array_equal(one | other, whole)
        assert not (one & other).any()
    assert photographs.masks[0] is None


@pytest.mark.parametrize("legacy", [False, True], ids=["today", "without bounds"])
def test_resumed_run_keeps_the_bounds_of_its_field(training, tmp_path, legacy):
    """On resume, splats start as placeholders at other places, with other bounds.

    Checkpoints of earlier versions have no bounds: these are computed again from the initial splats. They also lack
    rates of the field, features and harmonics of splats.
    """
    settings = {"color": "field", "field_table_size": 2**10, "noise_scale": 0.0}
    if legacy:
        settings |= {"field_features": 0, "field_sh_degree": 0}
    whole = training.new(tmp_path / "whole", **settings)
    half = training.new(tmp_path / "half", **settings, keep=9)
    for path in checkpoint_paths(half.checkpoints_path)[:-1]:
        path.unlink()
    half.result_path.unlink()
    if legacy:
        (path,) = checkpoint_paths(half.checkpoints_path)
        checkpoint = read_checkpoint(path)
        del checkpoint.arrays["field_bounds"], checkpoint.metadata["num_features"]
        checkpoint.metadata["state"]["lr"] = checkpoint.metadata["state"]["lr"][:6]
        write_checkpoint(path, checkpoint)
        lines = half.config_path.read_text().splitlines(keepends=True)
        half.config_path.write_text(
            "".join(x for x in lines if not x.startswith(("field_features", "field_sh_degree")))
        )
    training.resume(half.path)
    assert any(line.startswith("Continuing from step ") for line in training.said)
    assert half.ply_path(60).read_bytes() == whole.ply_path(60).read_bytes()
