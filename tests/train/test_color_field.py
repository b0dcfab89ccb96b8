"""Training with a colour field: it learns, resumes to the same bits, is saved whole, baked, fitted to photographs."""

import dataclasses

import numpy as np
import pytest

from splat_cli.device import open_backend
from splat_cli.errors import FormatError, UsageError
from splat_cli.field.bake import bake_field
from splat_cli.field.color_field import ColorField, FieldShape
from splat_cli.field.coloring import FieldColoring
from splat_cli.field.file import NAME, read_field, write_field
from splat_cli.field.frame import frame_of
from splat_cli.field.hash_grid import GridShape
from splat_cli.field.parameters import Parameters
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.ply import read_ply
from splat_cli.gaussians.splats import Splats
from splat_cli.presets import load_config
from splat_cli.render.pictures import to_8bit
from splat_cli.render.view import ViewRenderer
from splat_cli.scene.images import Photographs
from splat_cli.train import saving
from splat_cli.train.checkpoint import put_checkpoint, take_checkpoint
from splat_cli.train.evaluation import psnr
from splat_cli.train.held_out import half, held_out_coloring
from splat_cli.train.saving import save_splats
from splat_cli.train.trainer import Trainer
from tests.train.conftest import SETTINGS
from tests.views import ring_of_views

SMALL = {**SETTINGS, "color": "field", "field_table_size": 2**10, "field_appearance": 3, "noise_scale": 0.0}
SHAPE = FieldShape(GridShape(3, levels=2, table_size=2**8, features=4, base_resolution=4), hidden=(16,), appearance=2)


def some_splats(num=400):
    rng = np.random.default_rng(0)
    return SplatArrays(
        means=rng.normal(0, 0.6, (num, 3)).astype(np.float32),
        log_scales=rng.normal(-2, 0.3, (num, 3)).astype(np.float32),
        quats=rng.normal(size=(num, 4)).astype(np.float32),
        logit_opacities=rng.normal(1, 1, num).astype(np.float32),
        sh0=rng.normal(0, 0.5, (num, 3)).astype(np.float32),
        shN=np.zeros((num, 0, 3), np.float32),
    )


def tinted_images(backend):
    tints = np.array([[0.5, 1, 1], [1, 0.5, 1], [1, 1, 0.5], [1, 1, 1]])
    shown = pictures(backend, some_splats(), ring_of_views(2) * 2)
    return [(picture * tint).astype(np.uint8) for picture, tint in zip(shown, tints, strict=True)]


def tinted_trainer(backend=None, images=None, **changes):
    """Four photographs of some splats, two from each place, by default each in a tint of its own, on one OS thread."""
    backend, splats, places = backend or open_backend("cpu", threads=1), some_splats(), ring_of_views(2)
    views = [dataclasses.replace(view, name=f"{number}{view.name}") for number in range(2) for view in places]
    images = images or tinted_images(backend)
    steps = {"steps": 160, "densify_start": 150, "densify_stop": 151, "deterministic": backend.name == "cpu"}
    config = load_config(None, {**SMALL, **steps, **changes})
    colors = np.full((len(splats), 3), 128, np.uint8)
    return Trainer(backend, views, images, splats.means, colors, config)


def lively_field(backend, splats, num_views=6):
    """A field whose colours depend on everything, mildly."""
    field = ColorField(backend, SHAPE, frame_of(splats.means), num_views, len(splats), np.random.default_rng(1))
    rng = np.random.default_rng(2)
    for part, size in (("tables", 0.2), ("network", 0.12), ("embeddings", 0.5)):
        parameters = field.parts()[part]
        parameters.values[...] = backend.upload(rng.normal(0, size, len(parameters)).astype(np.float32))
    field.refresh()
    return field


def pictures(backend, splats, views, coloring=None):
    renderer = ViewRenderer(backend, Splats.from_arrays(backend, splats), views, coloring=coloring)
    return [to_8bit(renderer.render(index)) for index in range(len(views))]


def test_photographs_of_different_looks_need_appearances(backend):
    plain, tinted = tinted_trainer(backend, field_appearance=0), tinted_trainer(backend)
    errors = []
    for trainer in (plain, tinted):
        trainer.run_until(160)
        errors.append(10 ** (-float(trainer.state.read()["psnr"]) / 10))
        assert not any(trainer.bad_numbers.values())
    assert errors[1] < 0.6 * errors[0]


def test_training_goes_on_to_the_same_bits():
    whole = tinted_trainer(field_moves=True, densify_start=15)
    whole.run_until(20)
    checkpoint = take_checkpoint(whole)
    whole.run_until(40)
    resumed = tinted_trainer(field_moves=True, densify_start=15)
    put_checkpoint(resumed, checkpoint)
    resumed.run_until(40)
    np.testing.assert_array_equal(
        resumed.splats.params[:, : resumed.model.num], whole.splats.params[:, : whole.model.num]
    )
    for name, array in whole.besides.field.arrays().items():
        np.testing.assert_array_equal(resumed.besides.field.arrays()[name], array)


def test_gradients_of_colours_move_splats_only_where_asked():
    moved = []
    for moves in (False, True):
        trainer = tinted_trainer(field_moves=moves, opacity_reg=0.0, scale_reg=0.0)
        trainer.run_until(30)
        moved.append(trainer.splats.params[:3, :400].copy())
    assert (moved[0] != moved[1]).any()


def test_file_keeps_field_and_splats(backend, tmp_path):
    splats, views = dataclasses.replace(some_splats(), antialiased=True), ring_of_views(6)
    field = lively_field(backend, splats)
    names = [view.name for view in views]
    write_field(tmp_path / NAME, field, splats, names)
    saved = read_field(tmp_path / NAME)
    assert saved.names == names
    assert saved.shape == SHAPE
    assert saved.splats.antialiased
    np.testing.assert_array_equal(saved.embedding("a_02.jpg"), field.embedding_rows()[2])
    np.testing.assert_allclose(saved.embedding(None), field.embedding_rows().mean(axis=0), rtol=1e-5)
    with pytest.raises(UsageError, match="expected mean or a training photograph such as a_00"):
        saved.embedding("elsewhere.jpg")
    before = pictures(backend, splats, views, FieldColoring(field))
    after = pictures(backend, saved.splats, views, FieldColoring(saved.open(backend, len(splats))))
    assert psnr(np.stack(before), np.stack(after)) > 45


@pytest.mark.parametrize("damage", ["cut", "other", "shape"])
def test_damaged_file_is_an_error(backend, tmp_path, damage):
    splats = some_splats(20)
    path = tmp_path / NAME
    write_field(path, lively_field(backend, splats), splats, [f"{i}" for i in range(6)])
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "other":
        np.savez(path, means=splats.means)
    else:
        with np.load(path) as content:
            np.savez(path, **{**content, "tables": content["tables"][:-4]})
    with pytest.raises(FormatError, match="is not the file of a colour field"):
        read_field(path)


def test_baked_splats_look_as_the_field(backend):
    """To the views, and the better the higher the degree."""
    splats, views = some_splats(), ring_of_views(12)
    field = lively_field(backend, splats, len(views))
    mean = Parameters(backend, np.tile(field.embedding_rows().mean(axis=0), (len(views), 1)))
    own = np.stack(pictures(backend, splats, views, FieldColoring(field, mean)))
    residuals, scores = [], []
    for degree in (0, 2, 3):
        baked = bake_field(field, splats, views, degree)
        assert baked.splats.sh_degree == degree
        residuals.append(baked.residual)
        scores.append(psnr(np.stack(pictures(backend, baked.splats, views)), own))
    assert residuals[0] > residuals[1] > residuals[2]
    assert scores[0] < scores[1] < scores[2]
    assert scores[2] > 38


def test_baked_residual_is_what_the_coefficients_leave(backend):
    """A field that ignores directions leaves none even at degree 0."""
    splats, views = some_splats(50), ring_of_views(5)
    field = lively_field(backend, splats, 5)
    layer = field.network.layers[0]
    begin = SHAPE.grid.width
    weights = layer.weights.reshape(layer.num_inputs + 1, layer.num_outputs)
    weights[begin : begin + 16] = 0
    assert bake_field(field, splats, views, 0).residual < 1e-5


def test_held_out_photographs_are_fitted_on_their_left_halves(backend):
    """Photographs in a look that lies between those of training: right halves, too, are met."""
    splats, views = some_splats(), ring_of_views(6)
    field = lively_field(backend, splats)
    looks = field.embedding_rows()[:3] * 0.8 + 0.3
    true = FieldColoring(field, Parameters(backend, looks))
    images = pictures(backend, splats, views[:3], true)
    photographs = Photographs(views[:3], images, [None] * 3, [])
    before = {name: backend.download(array) for name, array in field.arrays().items()}
    fitted = held_out_coloring(Splats.from_arrays(backend, splats), field, photographs, load_config(), (0.0, 0.0, 0.0))
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
    photographs = Photographs([view, view], [np.zeros((view.height, view.width, 3), np.uint8)] * 2, [None, mask], [])
    left, right = half(photographs, right=False).masks, half(photographs, right=True).masks
    for whole, one, other in zip((np.full_like(mask, 255), mask), left, right, strict=True):
        np.testing.assert_array_equal(one | other, whole)
        assert not (one & other).any()
    assert photographs.masks[0] is None


def test_last_saved_splats_are_trained_on_after_they_were_baked(backend, tmp_path):
    """Those of an earlier step are baked alone."""
    images, scores = pictures(backend, some_splats(), ring_of_views(2) * 2), []
    trainer = tinted_trainer(backend, images, field_appearance=0, steps=90, background="black", antialias=False)
    views = trainer.cameras.views
    for step in (89, 90):
        trainer.run_until(step)
        saved = save_splats(trainer, tmp_path / "splats.ply", Photographs(views, images, [None] * len(views), []))
        assert saved.splats.sh_degree == 3
        scores.append(psnr(np.stack(pictures(backend, saved.splats, views)), np.stack(images)))
    assert scores[1] > scores[0] + 0.1  # a step of training changes it by a tenth of that


def test_without_memory_to_train_on_the_baked_splats_are_saved(tmp_path, monkeypatch):
    def no_memory(*args, **changes):
        raise MemoryError

    monkeypatch.setattr(saving, "fine_tuned", no_memory)
    trainer, told = tinted_trainer(field_appearance=0, steps=20, background="black"), []
    trainer.run_until(20)
    views = trainer.cameras.views
    photographs = Photographs(views, tinted_images(trainer.backend), [None] * len(views), [])
    saved = save_splats(trainer, tmp_path / "splats.ply", photographs, told.append)
    assert "not enough device memory" in told[-1]
    assert len(read_ply(tmp_path / "splats.ply")) == len(saved.splats) == trainer.model.num


def test_run_saves_both_files_and_measures_right_halves(training, tmp_path):
    run = training.new(tmp_path / "run", **{**SMALL, "steps": 20}, eval=True, report=False)
    ply = run.ply_path(20)
    assert read_ply(ply).sh_degree == 3
    saved = read_field(ply.with_name(NAME))
    assert len(saved.splats) == len(read_ply(ply))
    assert any("Colour field with its splats" in line for line in training.said)
    assert "only right halves" in run.metrics()["protocol"]
    assert dataclasses.asdict(run.config())["color"] == "field"
