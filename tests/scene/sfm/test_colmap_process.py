"""The process in which COLMAP runs, mostly with another program instead of COLMAP."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from splat_cli.errors import DiskError, SceneError, SplatError, UnwritableError, UsageError
from splat_cli.sample import make_sample_scene
from splat_cli.scene import read_scene, sfm
from splat_cli.scene.sfm import (
    SfmOptions,
    can_be_made,
    colmap_database,
    colmap_process,
    colmap_worker,
    make_scene,
    new_scene_folder,
)
from splat_cli.scene.sfm.colmap_process import run_colmap
from splat_cli.terminal.console import Display
from splat_cli.terminal.interrupt import Interrupted
from tests.subprocesses import HANG, finished, is_running, started, wait_until

SLEEPING = """
import os, time
from splat_cli.processes.child_process import end_with_parent
end_with_parent()
with open(os.environ["PID_FILE"] + ".part", "w") as file:
    file.write(str(os.getpid()))
os.rename(file.name, os.environ["PID_FILE"])
time.sleep(1e6)
"""


@pytest.fixture
def counts(monkeypatch, tmp_path):
    """Makes `run_colmap` run a program that prints `lines`; returns {label: [total, counted]}."""

    def run(program):
        shown = {}

        @contextmanager
        def counting(label, total):
            shown[label] = [total, 0]
            yield lambda num: shown[label].__setitem__(1, shown[label][1] + num)

        monkeypatch.setattr(colmap_process, "_PROGRAM", program)
        return run_colmap({"scene": str(tmp_path)}, counting), shown

    return run


def printing(*lines):
    return f"print({chr(10).join(lines)!r})"


def test_progress_is_read_from_the_log(counts):
    result, shown = counts(
        printing(
            '@splat {"phase": "features", "total": 3, "device": "cpu"}',
            *["I20260101 00:00:00.0 1 feature_extraction.cc:270] Processed file [1/2]"] * 2,
            '@splat {"phase": "pairs", "total": 40}',
            "I20260101 00:00:00.0 1 pairing.cc:214] Processing block [2/2, 1/2]",
            '@splat {"phase": "placed", "total": 3}',
            "half a line",
            '@splat {"done": 2}',
            '@splat {"done": 1}',
            '@splat {"phase": "again", "total": 3}',
            '@splat {"phase": "kept", "total": 3}',
            '@splat {"done": 2}',
            '@splat {"models": 1, "registered": 2}',
        )
    )
    again = "photographs placed again, without pairs that may only look alike"
    assert shown == {"features on the CPU": [3, 3], "pairs of photographs": [40, 40], "photographs placed": [3, 2]} | {
        again: [3, 0],
        "photographs that keep the first poses, as others fit no better": [3, 2],
    }
    assert result == {"models": 1, "registered": 2}


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import os; print('E20260101 00:00:00.0 1 a.cc:2] bad luck', flush=True); os.abort()", "SIGABRT: bad luck"),
        ("raise ValueError('no way')", "exit code 1: ValueError: no way"),
        ("raise ValueError('[images.cc:30] Check failed: no')", "exit code 1: ValueError: Check failed: no"),
        ("pass", "exit code 0"),
        ("import os; print('W20260101 00:00:00.0 1 a.cc:2] known', flush=True); os.kill(os.getpid(), 9)", r"SIGKILL\)"),
    ],
)
def test_a_crash_is_one_line(counts, capfd, program, reason):
    with pytest.raises(SplatError, match=f"COLMAP failed .*{reason}") as raised:
        counts(program)
    assert "\n" not in str(raised.value)
    assert "again to continue; if it fails again, remove " in str(raised.value)  # some photographs crash it each time
    assert capfd.readouterr() == ("", "")  # no lines of COLMAP's log


def test_without_a_viewer_nothing_is_written_to_the_temporary_folder(counts, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert counts(printing('@splat {"models": 1}'))[0] == {"models": 1}


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def begun_scene(tmp_path, monkeypatch, error):
    """A scene's folder after `error` of COLMAP, which has saved a database; beside it is a file of the user."""
    for number in range(3):
        (tmp_path / "photos").mkdir(exist_ok=True)
        Image.new("RGB", (8, 6)).save(tmp_path / "photos" / f"{number}.png")
    scene = tmp_path / "scene"

    def fails(folder, *args, **options):
        (folder / "database.db").write_text("features of hours")
        for name in ("confirmed.db", "notes.txt"):
            (folder / name).touch()
        raise error

    monkeypatch.setattr(sfm, "require_pycolmap", lambda: None)
    monkeypatch.setattr(sfm, "map_photographs", fails)
    with pytest.raises(type(error)):
        make_scene(tmp_path / "photos", scene, SfmOptions(), Display().counting, print)
    return scene


@pytest.mark.parametrize("error", [SplatError("COLMAP failed"), DiskError("full"), UnwritableError("read-only")])
def test_finished_work_survives_a_crash_and_a_full_disk(tmp_path, monkeypatch, error):
    scene = begun_scene(tmp_path, monkeypatch, error)
    assert names_in(scene) == [".unfinished", "confirmed.db", "database.db", "images", "notes.txt"]


def test_foreign_files_stay_if_photographs_give_no_scene(tmp_path, monkeypatch):
    scene = begun_scene(tmp_path, monkeypatch, SceneError("no two fit"))
    assert names_in(scene) == ["notes.txt"]


def test_files_of_an_interrupted_repair_are_removed(tmp_path):
    """By the next attempt, which has other options."""
    begun = [".unfinished", "database.db", *(f"confirmed.db{end}" for end in ("", "-shm", "-wal"))]
    for name in begun:
        (tmp_path / name).touch()
    (tmp_path / "confirmed.models").mkdir()
    with new_scene_folder(tmp_path, {}):
        assert names_in(tmp_path) == [".lock", ".unfinished"]


def test_a_killed_start_and_a_damaged_marker_do_not_matter(tmp_path):
    scene = tmp_path / "scene"
    scene.mkdir()
    (scene / "..unfinished.1.part").touch()
    assert can_be_made(scene, {})
    (scene / ".unfinished").write_text("[" * 100_000)
    with new_scene_folder(scene, {}):
        assert names_in(scene) == [".lock", ".unfinished"]
    with pytest.raises(UsageError, match="holds a finished scene: `splat train"), new_scene_folder(scene, {}):
        pass


def test_a_crash_on_a_full_disk_says_so(counts, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=9000))
    with pytest.raises(DiskError, match="was not written: .* the disk has 0.0 MiB; free some there"):
        counts("raise RuntimeError('No registered database factory succeeded.')")


def test_colmap_process_does_not_import_sqlite():
    program = f"import sys, {colmap_process.colmap_worker.__name__}; sys.exit('sqlite3' in sys.modules)"
    assert finished([sys.executable, "-c", program]).returncode == 0


@pytest.fixture
def sleeping(tmp_path):
    """(`splat sfm` whose COLMAP sleeps, the id of that process, the folder of the scene)."""
    for number in range(3):
        (tmp_path / "photos").mkdir(exist_ok=True)
        Image.new("RGB", (8, 6)).save(tmp_path / "photos" / f"{number}.png")
    pid_file = tmp_path / "pid"
    program = (
        "import importlib.util, sys; importlib.util.find_spec = lambda name: name\n"
        "from splat_cli.scene.sfm import colmap_process; from splat_cli.cli.main import run\n"
        f"colmap_process._PROGRAM = {SLEEPING!r}\n"
        f"sys.exit(run(['sfm', {str(tmp_path / 'photos')!r}, '-o', {str(tmp_path / 'scene')!r}]))"
    )
    environment = {**os.environ, "PID_FILE": str(pid_file)}
    with started([sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE) as process:
        wait_until(pid_file.exists, process)
        yield process, int(pid_file.read_text()), tmp_path / "scene"


def test_ctrl_c_ends_both_and_keeps_what_is_done(sleeping):
    process, child, scene = sleeping
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=HANG)
    assert process.returncode == 130
    wait_until(lambda: not is_running(child))
    assert "the same command again continues" in err
    assert sorted(path.name for path in scene.iterdir()) == [".unfinished", "images"]


def test_the_child_ends_with_its_parent_and_the_next_attempt_continues(sleeping, splat):
    pytest.importorskip("pycolmap")
    process, child, scene = sleeping
    busy = splat("sfm", scene.parent / "photos", "-o", scene)
    assert (busy.code, "another process" in busy.err) == (2, True)
    process.kill()
    process.wait(timeout=HANG)
    wait_until(lambda: not is_running(child))
    assert (scene / "images").is_dir()
    again = splat("sfm", scene.parent / "photos", "-o", scene)
    assert "fit together" in again.err
    assert names_in(scene) == []  # photographs that make no scene


@pytest.mark.slow
def test_features_of_an_interrupted_attempt_are_kept(tmp_path, monkeypatch):
    pytest.importorskip("pycolmap")
    make_sample_scene(tmp_path / "sample", num_views=16, width=320, height=240)
    photos = tmp_path / "sample" / "images"

    def interrupt(label, total):
        if label == "photographs placed":
            raise KeyboardInterrupt
        return nullcontext(lambda num: None)

    scene, options = tmp_path / "scene", SfmOptions(one_camera=True)
    with pytest.raises(Interrupted, match="continues"):
        make_scene(photos, scene, options, interrupt, print)
    log = []
    monkeypatch.setattr(colmap_process._Progress, "log", lambda self, line: log.append(line))
    made = make_scene(photos, scene, options, Display().counting, print)
    assert made.num_registered >= 3
    assert len({view.fx for view in read_scene(scene).views}) == 1
    assert sum("already extracted" in line for line in log) == 16
    found = {path.name for path in scene.iterdir()} - {"unregistered.txt"}
    assert sorted(found) == ["database.db", "images", "sfm.json", "sparse"]


MAPPING = """
import json, os, sys
from pathlib import Path
import pycolmap
from splat_cli.scene.sfm import colmap_worker as worker

folder, last = Path(sys.argv[1]), int(sys.argv[2])
pycolmap.logging.minloglevel = 2
pycolmap.set_random_seed(0)
if not (folder / "database.db").exists():
    database = pycolmap.Database.open(folder / "database.db")
    for _ in range(2):  # places that no photograph connects
        options = pycolmap.SyntheticDatasetOptions(num_rigs=1, num_cameras_per_rig=1, num_frames_per_rig=8)
        options.num_points3D = 1000
        pycolmap.synthesize_dataset(options, database)
    database.close()

def send(**message):
    if "done" in message:
        print("PLACED", message["done"], flush=True)
        if message["done"] == last:
            os._exit(9)

worker.send, worker._SAVE_SECONDS, worker._SAVE_SHARE = send, 0.0, 0.0
database = pycolmap.Database.open(folder / "database.db")
names = [image.name for image in database.read_all_images()]
database.close()
models = worker._map(pycolmap, folder / "database.db", folder, {"names": names, "seed": 0, "are_small": False})
print("MODELS", json.dumps([sorted(model.images[i].name for i in model.reg_image_ids()) for model in models]))
"""


MATCHING = """
import json, os, sys
from pathlib import Path
import pycolmap
from splat_cli.scene.sfm import colmap_database as steps

folder, names = Path(sys.argv[1]), json.loads(sys.argv[2])
pycolmap.logging.minloglevel = 2
file = folder / "database.db"
opened = pycolmap.Database.open(file)
match, estimate, shares = pycolmap.match_image_pairs, pycolmap.estimate_two_view_geometry, []
def verify(*args):
    shares.append([len(args[4]), args[5].ransac.min_inlier_ratio])
    return os._exit(9) if sys.argv[3] == "verify" and len(shares) > 2 else estimate(*args)

pycolmap.estimate_two_view_geometry, steps.num_cores, steps._AHEAD = verify, lambda: 1, 1
if sys.argv[3] == "match":
    options = pycolmap.SyntheticDatasetOptions(num_rigs=1, num_cameras_per_rig=1, num_frames_per_rig=len(names))
    options.num_points3D = 40
    pycolmap.synthesize_dataset(options, opened)
    for image, image.name in zip(opened.read_all_images(), names):
        opened.update_image(image)
    opened.clear_matches()
    opened.clear_two_view_geometries()
    opened.close()
    pycolmap.match_image_pairs = lambda *args, **options: os._exit(9)
steps.send = lambda **message: None
job = {"names": names, "pairs": [names[:2], names[1:3], names[2:4]], "seed": 0}
steps.register(pycolmap, file, folder, job, [])
steps.match(pycolmap, file, job)
steps.verify(pycolmap, file, 0)
opened = pycolmap.Database.open(file)
images = {image.image_id: image.name for image in opened.read_all_images()}
pairs = [sorted(map(images.get, pair)) for pair in map(pycolmap.pair_id_to_image_pair, opened.read_all_matches()[0])]
print("RESULT", json.dumps([sorted(images.values()), sorted(pairs), shares, opened.num_inlier_matches()]))
"""


def test_only_the_listed_pairs_are_matched_whatever_the_names(tmp_path):
    """Also after interruptions: the first leaves other names in the database, the second a verified pair."""
    pytest.importorskip("pycolmap")
    names = ["# 1.jpg", "a b/2.jpg", "a%20b/2.jpg", "plain.jpg"]
    command = [sys.executable, "-c", MATCHING, str(tmp_path), json.dumps(names)]
    *killed, done = (finished([*command, ends_in]) for ends_in in ("match", "verify", ""))
    assert [one.returncode for one in killed] == [9, 9], [one.stderr for one in killed]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    found, pairs, shares, num_inliers = json.loads(line.removeprefix("RESULT "))
    assert [found, pairs] == [names, [names[:2], names[1:3], names[2:4]]]
    assert [share for _, share in shares] == [15 / num_matches for num_matches, _ in shares]  # 15 inliers must agree
    assert len(shares) in (1, 2), "the process may end before or after it writes its second pair"
    assert num_inliers >= 3 * 15


def test_an_interrupted_mapping_continues(tmp_path):
    """Killed in the first and in the second of two models, which share no photograph."""
    pytest.importorskip("pycolmap")
    starts, ends = [], []
    for last in (6, 12, 99):
        done = finished([sys.executable, "-c", MAPPING, str(tmp_path), str(last)])
        placed = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("PLACED ")]
        starts.append(placed[0])
        ends.append((done.returncode, placed[-1]))
    assert ends == [(9, 6), (9, 12), (0, 16)], done.stderr
    assert starts == [2, 5, 11]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("MODELS ")]
    first, second = map(set, json.loads(line.removeprefix("MODELS ")))
    assert (len(first), len(second), first & second) == (8, 8, set())


@pytest.mark.parametrize(("num", "num_threads"), [(200, 1), (201, -1)])
def test_few_photographs_always_get_the_same_poses(monkeypatch, tmp_path, num, num_threads):
    """Several threads add the residuals of an adjustment in another order each time, if there are 50,000 or more."""
    seen, adjusted = [], []
    model = SimpleNamespace(num_reg_images=lambda: num, reg_image_ids=lambda: [])

    def mapped(library, database, options, *rest):
        seen.append((options.num_threads, options.mapper.ba_global_ignore_redundant_points3D))
        return [model]

    monkeypatch.setattr(colmap_worker, "_mapped", mapped)
    monkeypatch.setattr(colmap_worker, "_adjust", lambda library, found, *options: adjusted.append(found))
    monkeypatch.setattr(colmap_worker, "send", lambda **message: None)
    job = {"names": [f"{number}.jpg" for number in range(num)], "seed": 0, "are_small": False}
    colmap_worker._map(pytest.importorskip("pycolmap"), tmp_path / "database.db", tmp_path, job)
    assert seen == [(num_threads, True)]
    assert adjusted == [model], "to the points that were left out while it grew"


def test_models_are_saved_at_times(tmp_path, monkeypatch):
    """A version that was not written completely does not count."""
    clock = iter([0, 3, 10, 14, 15, 93, 94, 96])
    monkeypatch.setattr(colmap_worker, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    saved = colmap_worker.SavedModels(tmp_path / "database.db")
    model = SimpleNamespace(write=lambda folder: (folder / "images.bin").touch())
    assert saved.folders() == []
    found = []
    for num in range(1, 5):  # at 3 too early; from 10 to 14; at 15 too early; from 93 to 94 too early
        saved.write_at_times([model] * num)
        found.append([str(path.relative_to(tmp_path)) for path in saved.folders()])
    kept = ["database.models/1/0", "database.models/1/1"]
    assert found == [[], kept, kept, kept]
    saved._next = 0
    saved.write_at_times([model])
    (tmp_path / "database.models/3.part/0").mkdir(parents=True)
    assert [str(path.relative_to(tmp_path)) for path in saved.folders()] == ["database.models/2/0"]
    assert sorted(path.name for path in saved.folder.iterdir()) == ["2", "3.part"]


@pytest.mark.parametrize("content", [None, b"", bytes(9)], ids=["missing", "empty", "zeros"])
def test_damaged_models_are_made_again(tmp_path, content):
    """A power cut can leave files of no length."""
    pycolmap = pytest.importorskip("pycolmap")
    saved = colmap_worker.SavedModels(tmp_path / "database.db")
    folder = saved.folder / "1" / "0"
    folder.mkdir(parents=True)
    if content is not None:
        for name in ("rigs", "cameras", "frames", "images", "points3D"):
            (folder / f"{name}.bin").write_bytes(content)
    assert colmap_worker._saved_models(pycolmap, saved) == []
    assert not saved.folder.exists()


@pytest.mark.parametrize(
    ("side", "num_features", "octave"), [(1500, 4000, 0), (7000, 4000, 0), (1500, 2000, -1), (900, 4000, -1)]
)
def test_large_photographs_with_many_features_are_not_enlarged(side, num_features, octave):
    searched = []
    library = SimpleNamespace(
        FeatureExtractionOptions=lambda: SimpleNamespace(sift=SimpleNamespace()),
        Device=SimpleNamespace(cpu="cpu"),
        Bitmap=SimpleNamespace(
            read=lambda path, colors: SimpleNamespace(
                width=side, height=side, to_array=lambda: np.zeros((side, side), np.uint8)
            )
        ),
        Sift=lambda options, device: SimpleNamespace(
            extract=lambda pixels: searched.append(pixels.shape[0]) or (np.zeros((num_features, 4)), None)
        ),
    )
    assert colmap_database._first_octave(library, [Path(f"{i}.jpg") for i in range(30)]) == octave
    assert len(searched) in (0, 4)
    assert all(pixels <= 3200 for pixels in searched)


@pytest.mark.parametrize(
    ("are_small", "are_enlarged", "expected"),
    [(True, False, (0, 2)), (True, True, (-1, 2)), (False, False, (-1, 1))],
    ids=["small", "enlarged", "whole"],
)
def test_small_copies_have_more_orientations_and_few_are_enlarged(
    monkeypatch, tmp_path, are_small, are_enlarged, expected
):
    searched = []
    library = SimpleNamespace(
        has_cuda=False,
        Device=SimpleNamespace(cpu=SimpleNamespace(name="cpu")),
        FeatureExtractionOptions=lambda: SimpleNamespace(sift=SimpleNamespace(max_num_orientations=2)),
        ImageReaderOptions=SimpleNamespace,
        extract_features=lambda *paths, extraction_options, **rest: searched.append(extraction_options.sift),
    )
    monkeypatch.setattr(colmap_database, "send", lambda **message: None)
    monkeypatch.setattr(colmap_database, "_first_octave", lambda *photographs: -1)
    job = {"names": ["000000.jpg"], "masks": None, "are_small": are_small, "are_enlarged": are_enlarged}
    colmap_database.extract(library, tmp_path / "database.db", tmp_path, job)
    assert [(sift.first_octave, sift.max_num_orientations) for sift in searched] == [expected]


@pytest.mark.parametrize(
    ("has_cuda", "num", "expected"), [(True, 1, "cuda"), (True, 0, "cpu"), (True, None, "cpu"), (False, 1, "cpu")]
)
def test_a_gpu_is_used_if_colmap_and_the_driver_have_one(monkeypatch, has_cuda, num, expected):
    """COLMAP's build for CUDA fails on a machine without a GPU unless it is told the device."""

    def load(name):
        if num is None:
            raise OSError(name)
        return SimpleNamespace(cuInit=lambda flags: 0, cuDeviceGetCount=lambda count: setattr(count._obj, "value", num))

    monkeypatch.setattr(colmap_database.ctypes, "CDLL", load)
    library = SimpleNamespace(has_cuda=has_cuda, Device=SimpleNamespace(cpu="cpu", cuda="cuda"))
    assert colmap_database._device(library) == expected


def test_mapping_continues_if_what_is_placed_cannot_be_written(tmp_path, capfd):
    model = SimpleNamespace(num_reg_images=lambda: 0, reg_image_ids=list, point3D_ids=list, images={}, points3D={})
    for folder, is_told in ((tmp_path, True), (tmp_path / "gone", False)):
        colmap_worker.Shown({"placed": str(folder / "placed.npz")}).write([model])
        assert ("placed.npz" in capfd.readouterr().out) == is_told


def test_cameras_and_points_are_shown_as_they_are_placed(sample, tmp_path):
    """The last are those of the model that is written, with colours."""
    pytest.importorskip("pycolmap")
    (tmp_path / "photos").mkdir()
    for view in sample[:6]:
        shutil.copy(view.path, tmp_path / "photos")
    found = []
    options = SfmOptions(camera_model="SIMPLE_PINHOLE")
    made = make_scene(tmp_path / "photos", tmp_path / "scene", options, Display().counting, print, watch=found.append)
    first, last = found[0], found[-1]
    assert 1 <= len(first.w2c) < len(last.w2c) == made.num_registered
    assert not first.colors.any()
    assert last.colors.any()
    scene = read_scene(tmp_path / "scene")
    np.testing.assert_allclose(last.w2c, [view.w2c[:3] for view in scene.views], atol=1e-4)
    slopes = [(view.width / 2 / view.fx, view.height / 2 / view.fy) for view in scene.views]
    np.testing.assert_allclose(last.slopes, slopes, rtol=1e-4)
    assert len(last.points) == len(last.colors) == made.num_points
