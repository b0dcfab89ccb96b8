"""The package as programs import it: names, types, import time, and every example in the docs."""

import ast
import dataclasses
import json
import re
import shutil
import sys

import numpy as np
import pytest

import splat_cli as splat
from splat_cli.device import open_backend
from splat_cli.errors import DiskError, SceneError, UsageError
from splat_cli.gaussians.splats import Splats
from splat_cli.render.images import to_8bit
from splat_cli.render.view import ViewRenderer
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene import load_images
from splat_cli.scene.colmap import read_model
from splat_cli.scene.colmap.binary import write_model
from splat_cli.terminal.interrupt import Interrupted
from tests.documented import notebook_cells, python_blocks, run_cell
from tests.gaussians.some_splats import some_splats
from tests.scene.colmap_cameras import distorted_cameras
from tests.scene.models import small_model, write_scene
from tests.subprocesses import ROOT, finished

FEW = 25  # steps per run; the examples use thousands
FAST = {"device": "cpu", "quiet": True}


@pytest.fixture
def few_steps(monkeypatch, tmp_path):
    """Examples run in an empty folder, train few steps, and their sample scene is small."""
    from splat_cli import sample
    from splat_cli.api import scenes

    small = sample.make_sample_scene
    monkeypatch.setitem(vars(splat), "make_sample_scene", lambda folder: small(folder, 24, 64, 48))

    def shortened(config, changes, original=scenes.with_settings):
        config = original(config, changes)
        return dataclasses.replace(config, steps=min(config.steps or FEW, FEW), init="random")  # no plane sweep

    monkeypatch.setattr(scenes, "with_settings", shortened)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def result(scene):
    """A scene trained in memory, with three photographs held out."""
    return splat.train_scene(scene, steps=FEW, eval=True, test_every=3, **FAST)


def test_import_loads_little():
    """It does not import NumPy or CuPy and takes 15 ms."""
    code = "import sys; before = {*sys.modules}; import splat_cli; print(*{*sys.modules} - before)"
    loaded = {name.partition(".")[0] for name in finished([sys.executable, "-c", code]).stdout.split()}
    assert loaded - sys.stdlib_module_names == {"splat_cli"}
    assert len(loaded) < 40


def test_names_are_all_there():
    assert set(splat.__all__) <= set(dir(splat))
    for name in splat.__all__:
        assert getattr(splat, name).__doc__
    with pytest.raises(AttributeError, match="nonsense"):
        _ = splat.nonsense


def test_names_have_the_types_that_checkers_see():
    """Names loaded on first use equal the imports under `if TYPE_CHECKING`; no others are public."""
    tree = ast.parse((ROOT / "splat_cli" / "__init__.py").read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module != "typing"]
    seen = {name.name: node.module for node in imports for name in node.names if node.module.startswith("splat_cli")}
    loaded = {name: f"splat_cli.{module}" for module, names in splat._MODULES.items() for name in names}
    assert seen == loaded
    assert sorted(splat.__all__) == sorted(seen)


@pytest.mark.slow
def test_checkers_see_types(tmp_path):
    mypy = pytest.importorskip("mypy.api", reason="types are checked with mypy (extra dev)")
    program = tmp_path / "program.py"
    program.write_text(
        "import splat_cli as splat\nreveal_type(splat.train_scene('x').render(0).save)\nsplat.nonsense\n"
    )
    said = mypy.run(["--strict", "--no-incremental", str(program)])[0]
    assert re.search(r'Revealed type is "def \(path: .*str.* \| .*Path.*\)"', said)
    assert 'has no attribute "nonsense"' in said


def test_train_in_memory_writes_nothing(few_steps, scene):
    seen = []
    result = splat.train_scene(scene, steps=5, on_progress=seen.append, **FAST)
    assert (result.steps, result.path, result.held_out) == (5, None, [])
    assert seen[-1].step == 5
    assert list(few_steps.iterdir()) == []


def test_memory_and_run_train_the_same(scene, tmp_path):
    settings = {"steps": 20, "deterministic": True, "densify_start": 5, "densify_interval": 5}
    memory = splat.train_scene(scene, **settings, **FAST)
    run = splat.train_scene(scene, out=tmp_path / "run", **settings, **FAST)
    for name, array in memory.splats.arrays().items():
        np.testing.assert_array_equal(array, run.splats.arrays()[name])
    assert (run.path / "report.html").is_file()


def first_camera(page):
    """Position of the camera with which the page opens."""
    scene = json.loads(page.read_text().partition('id="scene">')[2].partition("</script>")[0])
    return np.array(scene["views"][0]["position"])


def test_saved_splats_are_those_of_splat_export(scene, tmp_path):
    """Cropped, and adapted to the sizes of training photographs."""
    settings = {"steps": 5, "eval": True, "test_every": 3, "crop": "0,0,0,0.7", "init": "points"}
    result = splat.train_scene(scene, out=tmp_path / "run", report=False, **settings, **FAST)
    result.save(tmp_path / "saved.ply")
    exported = splat.convert(tmp_path / "run", tmp_path / "exported.ply")
    assert 0 < len(exported) < len(result.splats)
    assert (tmp_path / "saved.ply").read_bytes() == (tmp_path / "exported.ply").read_bytes()
    larger = splat.convert(tmp_path / "run", tmp_path / "larger.ply", crop="0,0,0,0.9")  # instead of the run's
    assert len(exported) < len(larger) < len(splat.convert(tmp_path / "run", tmp_path / "all.ply", crop="none"))
    splat.convert(tmp_path / "run", tmp_path / "still.html")
    splat.convert(tmp_path / "run", tmp_path / "moved.html", translate=(0, 0, 3))
    moved = first_camera(tmp_path / "moved.html") - first_camera(tmp_path / "still.html")
    assert np.linalg.norm(moved) == pytest.approx(3, abs=1e-5)  # cameras move with the splats


def test_training_ends_when_the_callback_returns_false(scene, tmp_path):
    for out in (None, tmp_path / "run"):
        result = splat.train_scene(scene, steps=1000, on_progress=lambda progress: progress.step < 3, out=out, **FAST)
        assert 3 <= result.steps < 1000


def test_training_that_is_stopped_at_once_is_saved(scene, tmp_path):
    """The callback stops the run in its first call, while kernels of later steps may still be compiling."""
    for out in (None, tmp_path / "run"):
        result = splat.train_scene(scene, steps=1000, on_progress=lambda progress: False, out=out, **FAST)
        assert result.steps == 1
        assert len(result.splats) > 0
    assert (tmp_path / "run" / "checkpoints" / "step_1.npz").is_file()


def test_a_stopped_run_that_could_not_be_saved_is_an_error(scene, tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise DiskError("no space left")

    monkeypatch.setattr("splat_cli.run.run_writer.save_splats", fail)
    with pytest.raises(Interrupted, match="no space left"):
        splat.train_scene(scene, steps=1000, on_progress=lambda progress: False, out=tmp_path / "run", **FAST)


def test_run_and_memory_measure_the_same(result, trained):
    assert result.evaluate().per_image.keys() == splat.open_run(trained, device="cpu").evaluate().per_image.keys()
    assert splat.open_run(trained).evaluate().mean.psnr == pytest.approx(10, abs=10)


def test_scores_of_photographs_that_were_trained_on_are_named(scene, trained, recwarn):
    """`trained` has held out every third."""
    ply = RunDir(trained).ply_path(20)
    splat.evaluate(ply, scene, test_every=3, device="cpu")
    assert not recwarn.list
    with pytest.warns(UserWarning, match=r"trained on 1 of the 2 photographs \(a_08\.jpg\): their scores are too good"):
        splat.evaluate(str(ply), scene, test_every=8, device="cpu")


def test_color_field_is_rendered_and_saved(scene, tmp_path):
    result = splat.train_scene(scene, steps=20, eval=True, color="field", out=tmp_path / "run", **FAST)
    assert result.splats.sh_degree == 3
    view = result.held_out[0]
    photograph = np.asarray(result.compare(view.name))[:, : view.width]
    scored = splat.evaluate(result.splats, scene, device="cpu").per_image[view.name].psnr
    assert result.evaluate().per_image[view.name].psnr == pytest.approx(scored, abs=1.5)  # with the field baked in
    assert photograph.shape == result.render(view).pixels.shape
    result.save(tmp_path / "saved.ply")
    splat.convert(tmp_path / "run", tmp_path / "exported.ply")
    assert (tmp_path / "saved.ply").read_bytes() == (tmp_path / "exported.ply").read_bytes()


def test_pictures(result, tmp_path):
    image = result.render("a_01.jpg")
    assert image.pixels.dtype == np.uint8
    assert np.array_equal(image, result.render(result.views[1]).pixels)
    assert image._repr_png_().startswith(b"\x89PNG")
    assert result._repr_png_() == result.render(result.held_out[0])._repr_png_()
    image.save(tmp_path / "view.webp")
    assert (tmp_path / "view.webp").read_bytes()[8:12] == b"WEBP"
    assert result.render(0, background=(1, 1, 1)).pixels.mean() > result.render(0).pixels.mean()


def test_other_cameras_show_what_camera_paths_show(result):
    """Splats beside a camera among them do not hide its picture; own cameras are rendered as in training."""
    backend, view = open_backend("cpu"), result.views[0]
    splats = Splats.from_arrays(backend, result.splats)
    w2c = view.w2c.copy()
    w2c[:3, 3] = -w2c[:3, :3] @ result.splats.means.mean(axis=0)
    inside = dataclasses.replace(view, w2c=w2c)

    def rendered(camera, is_novel):
        renderer = ViewRenderer(backend, splats, [camera], result.config.antialias, novel_views=is_novel)
        return to_8bit(renderer.render(0, result.background))

    assert np.array_equal(result.render(view), rendered(view, is_novel=False))
    assert np.array_equal(result.render(inside), rendered(inside, is_novel=True))
    assert not np.array_equal(result.render(inside), rendered(inside, is_novel=False))


def test_files_are_measured_as_the_result_on_black(result, scene, tmp_path):
    """Files have no background; that of the result is the mean of its photographs, random in training."""
    result.save(tmp_path / "splats.ply")
    scores = splat.evaluate(tmp_path / "splats.ply", scene, test_every=3, device="cpu")
    on_black = dataclasses.replace(result, _model=dataclasses.replace(result._model, background=(0.0, 0.0, 0.0)))
    assert scores.mean.psnr == pytest.approx(on_black.evaluate().mean.psnr, abs=0.5)  # antialiasing is baked in
    names = {view.name for view in result.held_out}
    images = load_images([view for view in splat.read_scene(scene).views if view.name not in names]).images
    assert result.background == pytest.approx(np.mean(images, (0, 1, 2)) / 255, abs=0.02)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda result, scene: splat.evaluate(result.splats, scene, test_every=0), "test_every=0: expected 1"),
        (lambda result, scene: splat.train_scene(scene, stepz=3), "'stepz' is not a setting; did you mean 'steps'?"),
        (lambda result, scene: splat.train_scene(scene, downscale=2), "downscale is a setting of read_scene"),
        (lambda result, scene: splat.train_scene(scene, out="run"), "instead of a Scene"),
        (
            lambda result, scene: result.render("a_99.jpg"),
            "no view 'a_99.jpg': expected numbers under 9 and names such",
        ),
        (lambda result, scene: result.render(9), "no view 9"),
        (lambda result, scene: result.save("x.doc"), "x.doc is not a name for a file of splats"),
        (lambda result, scene: result.render(0).save("x.doc"), "x.doc is not a name for a picture"),
        (lambda result, scene: result.render(dataclasses.replace(result.views[0], width=0)), "expected whole numbers"),
        (
            lambda result, scene: result.render(dataclasses.replace(result.views[0], height=9.5)),
            "expected whole numbers",
        ),
        (lambda result, scene: result.render(dataclasses.replace(result.views[0], width=10**5)), "1 to 32768"),
        (lambda result, scene: result.render(dataclasses.replace(result.views[0], w2c=[])), "expected a NumPy array"),
        (
            lambda result, scene: result.render(dataclasses.replace(result.views[0], fx=np.nan)),
            "has invalid parameters",
        ),
        (lambda result, scene: splat.convert("a.ply", "b.ply", max_splats=-1), "max_splats = -1: expected 1 or more"),
        (lambda result, scene: splat.convert("a.ply", "b.ply", sh_degree=9), "sh_degree = 9: expected 0 to 3"),
        (lambda result, scene: splat.convert("a.ply", "b.ply", scale=0), "scale = 0: expected a number over 0"),
        (lambda result, scene: splat.convert("a.ply", "b.ply", crop="0,0"), "crop '0,0': expected x,y,z,radius"),
        (lambda result, scene: splat.convert("a.ply", "b.ply", shdegree=1), "not an edit; did you mean 'sh_degree'"),
        (lambda result, scene: splat.open_run("nowhere"), "nowhere does not exist"),
    ],
)
def test_errors_say_what_to_do(few_steps, result, scene, call, message):
    with pytest.raises(UsageError, match=message):
        call(result, splat.read_scene(scene))
    assert list(few_steps.iterdir()) == []


def test_scenes_are_checked_as_by_the_command(scene, tmp_path):
    with pytest.raises(SceneError, match="has no mask for any of the 9 photographs"):
        splat.read_scene(scene, masks=scene / "images")
    dot = shutil.copytree(scene, tmp_path / "dot")
    model = read_model(dot / "sparse/0")
    write_model(dot / "sparse/0", dataclasses.replace(model, points=1e-4 * model.points))
    with pytest.raises(SceneError, match="look wrong"):
        splat.train_scene(dot, steps=1, **FAST)
    assert splat.train_scene(dot, steps=1, allow_implausible=True, init="points", **FAST).steps == 1


def test_evaluation_without_held_out_photographs_is_an_error(scene):
    result = splat.train_scene(scene, steps=1, **FAST)
    for call in (result.evaluate, result.compare):
        with pytest.raises(UsageError, match="train with eval=True"):
            call()


def test_readme_trains_and_shows_a_picture(few_steps):
    (lines,) = python_blocks("README.md")
    assert run_cell(lines, {})._repr_png_().startswith(b"\x89PNG")
    assert {"comparison.png", "room.spz"} <= {path.name for path in few_steps.iterdir()}


def test_every_example_of_the_page_runs(few_steps):
    names = {}
    for block in python_blocks("docs/python.md"):
        run_cell(block, names)
    assert names["curve"]
    assert (few_steps / "room.html").is_file()


def test_convert_warns_of_splats_that_edits_make_infinite(tmp_path):
    splats = some_splats(10, 0)
    splats.means[0, 0] = 3e38
    splat.write_splats(tmp_path / "a.ply", splats)
    with pytest.warns(UserWarning, match="left out 1 splats that are not finite after the edits"):
        written = splat.convert(tmp_path / "a.ply", tmp_path / "b.ply", scale=10)
    assert len(written) == len(splat.read_splats(tmp_path / "b.ply")) == 9


def test_the_training_loop_of_the_page_takes_photographs_with_distortion(tmp_path):
    (loop,) = (block for block in python_blocks("docs/python.md") if "build_trainer(" in block)
    (camera,) = (camera for camera in distorted_cameras() if camera.model == "SIMPLE_RADIAL")
    names = {"splat": splat, "scene": splat.read_scene(write_scene(tmp_path, small_model(cameras=(camera,))))}
    assert all(view.lens is not None for view in names["scene"].views)
    run_cell(loop, names)
    assert names["step"] == 100


@pytest.mark.slow
def test_notebook_trains_compares_and_exports(monkeypatch, tmp_path):
    """The notebook's code cells run without Jupyter; it is stored without outputs."""
    monkeypatch.chdir(tmp_path)
    names = {}
    shown = [run_cell(source, names) for source in notebook_cells("docs/tour.ipynb")]
    assert sum(hasattr(value, "_repr_png_") for value in shown) == 3
    assert names["scores"].mean.psnr > 22
    assert {path.name for path in (tmp_path / "tour").glob("room.*")} == {"room.ply", "room.spz", "room.html"}
    assert '"outputs": []' in (ROOT / "docs" / "tour.ipynb").read_text()
    assert "image/png" not in (ROOT / "docs" / "tour.ipynb").read_text()


def test_backgrounds_are_those_of_the_command_line(result, scene):
    camera = dataclasses.replace(result.views[0], cx=1e4)  # far from all splats
    for background in ("white", "255,255,255", (1, 1, 1), np.ones(3)):
        assert (result.render(camera, background).pixels == 255).all()
        assert (splat.render_view(result.splats, camera, background=background, device="cpu").pixels == 255).all()
    for wrong in ("mauve", (255, 255, 255), (1, 1), 1, (0, 0, float("nan"))):
        with pytest.raises(UsageError, match="expected"):
            splat.render_view(result.splats, camera, background=wrong, device="cpu")


def changed_views(scene, **changes):
    return dataclasses.replace(scene, views=[dataclasses.replace(view, **changes) for view in scene.views])


def test_a_scene_of_a_program_may_have_other_types(scene):
    """NumPy integers (their products overflow), poses [3, 4], paths as text, positions in double precision."""
    read = splat.read_scene(scene)
    width = np.int32(read.views[0].width)
    views = [dataclasses.replace(view, w2c=view.w2c[:3], path=str(view.path), width=width) for view in read.views]
    points = read.points.astype(np.float64)
    points[0] = np.nan
    other = splat.train_scene(dataclasses.replace(read, views=views, points=points), steps=3, **FAST)
    expected = splat.train_scene(
        dataclasses.replace(read, points=read.points[1:], colors=read.colors[1:]), steps=3, **FAST
    )
    np.testing.assert_allclose(other.splats.means, expected.splats.means, atol=1e-3)
    assert other.render(np.int64(1)).pixels.shape == other.render(1).pixels.shape


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda scene: changed_views(scene, fx=0.0), "has invalid parameters"),
        (lambda scene: changed_views(scene, width=40.0), "expected whole numbers of pixels"),
        (lambda scene: changed_views(scene, w2c=np.eye(4).tolist()), r"expected a NumPy array \[4, 4\]"),
        (lambda scene: changed_views(scene, w2c=np.diag([1.0, 1.0, -1.0, 1.0])), "is not a rotation and a shift"),
        (lambda scene: changed_views(scene, w2c=np.diag([2.0, 2.0, 2.0, 1.0])), "is not a rotation and a shift"),
        (lambda scene: changed_views(scene, w2c=np.eye(4) + np.eye(4, k=1) / 100), "is not a rotation and a shift"),
        (lambda scene: changed_views(scene, w2c=scene.views[0].w2c.T), "is not a rotation and a shift"),
        (lambda scene: dataclasses.replace(scene, views=[]), "the scene has no views"),
        (lambda scene: dataclasses.replace(scene, points=scene.points.T), r"expected numbers \[P, 3\] and uint8"),
        (lambda scene: dataclasses.replace(scene, colors=scene.colors[:5]), r"colors uint8 \[5, 3\]"),
        (lambda scene: dataclasses.replace(scene, colors=scene.colors / 255), "colors float64"),
    ],
)
def test_a_scene_that_cannot_be_trained_on_is_refused(scene, change, message):
    with pytest.raises(UsageError, match=message):
        splat.train_scene(change(splat.read_scene(scene)), steps=3, **FAST)


def test_a_view_of_another_type_is_an_error(result):
    for view in (None, 0, "a_00.jpg"):
        with pytest.raises(UsageError, match="expected a View"):
            splat.render_view(result.splats, view, device="cpu")


def test_a_preset_may_be_a_path(tmp_path):
    (tmp_path / "mine.toml").write_text("steps = 77\n")
    assert splat.load_config(tmp_path / "mine.toml").steps == 77
