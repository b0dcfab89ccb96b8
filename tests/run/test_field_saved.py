"""Saving a colour field: its file, and the splats into which it is baked."""

import dataclasses
import json

import numpy as np
import pytest

from splat_cli.errors import FormatError, UsageError
from splat_cli.eval.metrics import psnr
from splat_cli.field.bake_sh import bake_field
from splat_cli.field.coloring import FieldColoring
from splat_cli.field.file import NAME, read_field, write_field
from splat_cli.field.parameters import Parameters
from splat_cli.gaussians.ply import read_ply
from splat_cli.run import export_splats
from splat_cli.run.export_splats import polished, save_splats, splats_of_run
from splat_cli.run.storage.load_run import field_path, saved_field
from splat_cli.scene.images.image_set import ImageSet
from tests.field_scenes import (
    SHAPE,
    SMALL,
    lively_field,
    own_colored_splats,
    pictures,
    some_splats,
    tinted_images,
    tinted_trainer,
)
from tests.views import ring_of_views


@pytest.mark.parametrize("make", [some_splats, own_colored_splats])
def test_file_keeps_field_and_splats(backend, tmp_path, make):
    splats, views = dataclasses.replace(make(), antialiased=True), ring_of_views(6)
    field = lively_field(backend, splats)
    names = [view.name for view in views]
    write_field(tmp_path / NAME, field, splats, names)
    saved = read_field(tmp_path / NAME)
    assert saved.names == names
    assert saved.shape == dataclasses.replace(SHAPE, features=splats.num_features)
    assert saved.splats.antialiased
    np.testing.assert_array_equal(saved.embedding("a_02.jpg"), field.embedding_rows()[2])
    np.testing.assert_allclose(saved.embedding(None), field.embedding_rows().mean(axis=0), rtol=1e-5)
    with pytest.raises(UsageError, match="expected mean or a training photograph such as a_00"):
        saved.embedding("elsewhere.jpg")
    before = pictures(backend, splats, views, FieldColoring(field))
    after = pictures(backend, saved.splats, views, FieldColoring(saved.open(backend, len(splats))))
    assert psnr(np.stack(before), np.stack(after)) > 45


@pytest.mark.parametrize("damage", ["cut", "other", "shape", "features"])
def test_damaged_file_is_an_error(backend, tmp_path, damage):
    splats = own_colored_splats(20)
    path = tmp_path / NAME
    write_field(path, lively_field(backend, splats), splats, [f"{i}" for i in range(6)])
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "other":
        np.savez(path, means=splats.means)
    else:
        name, wrong = {"shape": ("tables", np.s_[:-4]), "features": ("features", np.s_[:, :-1])}[damage]
        with np.load(path) as content:
            np.savez(path, **{**content, name: content[name][wrong]})
    with pytest.raises(FormatError, match="is not the file of a colour field"):
        read_field(path)


def test_file_of_an_earlier_version_has_no_features(backend, tmp_path):
    splats = some_splats(20)
    write_field(tmp_path / NAME, lively_field(backend, splats), splats, [f"{i}" for i in range(6)])
    with np.load(tmp_path / NAME) as content:
        arrays = dict(content)
    assert not {"shN", "features"} & arrays.keys()
    header = json.loads(arrays["header"].tobytes())
    del header["shape"]["features"]
    np.savez(tmp_path / NAME, **{**arrays, "header": np.frombuffer(json.dumps(header).encode(), np.uint8)})
    assert read_field(tmp_path / NAME).shape == SHAPE


@pytest.mark.parametrize("make", [some_splats, own_colored_splats])
def test_baked_splats_look_like_the_field(backend, make):
    """They look similar in the views, and higher degrees are closer."""
    splats, views = make(), ring_of_views(12)
    field = lively_field(backend, splats, len(views))
    mean = Parameters(backend, np.tile(field.embedding_rows().mean(axis=0), (len(views), 1)))
    own = np.stack(pictures(backend, splats, views, FieldColoring(field, mean)))
    residuals, scores = [], []
    for degree in (0, 2, 3):
        baked = bake_field(field, splats, views, degree)
        assert (baked.splats.sh_degree, baked.splats.num_features) == (degree, 0)
        residuals.append(baked.residual)
        scores.append(psnr(np.stack(pictures(backend, baked.splats, views)), own))
    assert residuals[0] > residuals[1] > residuals[2]
    assert scores[0] < scores[1] < scores[2]
    assert scores[2] > 38


def test_baked_residual_is_what_the_coefficients_leave(backend):
    """A field that ignores directions leaves no residual, even at degree 0."""
    splats, views = some_splats(50), ring_of_views(5)
    field = lively_field(backend, splats, 5)
    layer = field.network.layers[0]
    begin = SHAPE.grid.width
    weights = layer.weights.reshape(layer.num_inputs + 1, layer.num_outputs)
    weights[begin : begin + 16] = 0
    assert bake_field(field, splats, views, 0).residual < 1e-5


def test_polished_splats_are_closer_to_the_photographs(backend, tmp_path):
    images = pictures(backend, some_splats(), ring_of_views(2) * 2)
    trainer = tinted_trainer(backend, images, field_appearance=0, steps=90, background="black", antialias=False)
    trainer.run_until(90)
    views = trainer.cameras.views
    baked = splats_of_run(trainer, trainer.config)
    better = polished(baked, trainer, trainer.config, ImageSet(views, images, [None] * len(views), []))
    scores = []
    for splats in (baked, better):
        save_splats(tmp_path / "splats.ply", splats, trainer)
        saved = read_ply(tmp_path / "splats.ply")
        assert saved.sh_degree == 3
        scores.append(psnr(np.stack(pictures(backend, saved, views)), np.stack(images)))
    assert scores[1] > scores[0] + 0.1  # a training step changes it by a tenth of this


def test_without_memory_to_polish_the_baked_splats_are_saved(monkeypatch):
    def no_memory(*args, **changes):
        raise MemoryError

    monkeypatch.setattr(export_splats, "fine_tune", no_memory)
    trainer, messages = tinted_trainer(field_appearance=0, steps=20, background="black"), []
    trainer.run_until(20)
    views = trainer.cameras.views
    photographs = ImageSet(views, tinted_images(trainer.backend), [None] * len(views), [])
    baked = splats_of_run(trainer, trainer.config)
    assert polished(baked, trainer, trainer.config, photographs, messages.append) is baked
    assert "Not enough device memory" in messages[-1]
    assert len(baked.standard) == trainer.model.num


@pytest.mark.parametrize(("changes", "times"), [({}, 1), ({"background": "learned"}, 0), ({"field_appearance": 4}, 0)])
def test_only_the_last_splats_of_a_run_are_polished(training, tmp_path, changes, times):
    """They are not fine-tuned if splats alone cannot match the photographs."""
    settings = {**SMALL, "steps": 20, "save_at": (10,), "field_appearance": 0, "background": "black", **changes}
    run = training.new(tmp_path / "run", **settings, report=False)
    assert run.saved_steps() == [10, 20]
    assert sum("Training the baked splats of the PLY for 7 steps" in line for line in training.said) == times
    assert sum("Colour field with its splats" in line for line in training.said) == 2


def test_run_saves_both_files_and_measures_right_halves(training, tmp_path):
    run = training.new(tmp_path / "run", **{**SMALL, "steps": 20}, eval=True, report=False)
    ply = run.ply_path(20)
    assert read_ply(ply).sh_degree == 3
    saved = read_field(ply.with_name(NAME))
    assert len(saved.splats) == len(read_ply(ply))
    assert any("Colour field with its splats" in line for line in training.said)
    assert "only right halves" in run.metrics()["protocol"]
    assert dataclasses.asdict(run.config())["color"] == "field"
    ply.with_name(NAME).unlink()
    with pytest.raises(FormatError, match=rf"{NAME} is missing: restore it, or name .*point_cloud\.ply"):
        field_path(run.path)
    with pytest.raises(FormatError, match=f"{NAME} is missing"):
        saved_field(ply)
