"""Modified checkpoints with a valid checksum: rejected in one line, or replaced by the previous one."""

import json
import shutil

import numpy as np
import pytest

from splat_cli.errors import FormatError
from splat_cli.run.checkpoints.checkpointer import checkpoint_paths
from splat_cli.run.checkpoints.file import Checkpoint, read_checkpoint, write_checkpoint
from splat_cli.run.storage.run_dir import RunDir

NAN = float("nan")


@pytest.fixture(scope="module")
def whole(finished):
    """The newest checkpoint of a run."""
    return read_checkpoint(checkpoint_paths(finished.checkpoints_path)[0])


def tampered(whole, path, arrays=(), **metadata):
    """The checkpoint with changed arrays and metadata. The value ... removes an entry; state__x: key x of the state."""
    changed = dict(whole.arrays) | dict(arrays)
    header = json.loads(json.dumps(whole.metadata)) | {"step": whole.step}
    for key, value in metadata.items():
        *outer, last = key.split("__")
        place = header[outer[0]] if outer else header
        place[last] = value
        if value is ...:
            del place[last]
    write_checkpoint(
        path, Checkpoint(header.pop("step", 0), {k: a for k, a in changed.items() if a is not ...}, header)
    )
    return path


def assert_refused(path):
    with pytest.raises(FormatError, match=r"is not a checkpoint of this program \([^)]+") as caught:
        read_checkpoint(path)
    assert "\n" not in str(caught.value)


FACTS = [
    ("step", -1), ("step", 1.5), ("step", "60"), ("step", None), ("step", 1 << 40), ("step", True), ("step", 59),
    ("seconds", ...), ("seconds", NAN), ("seconds", -1), ("seconds", "1"),
    ("capacity", ...), ("capacity", 1), ("capacity", "x"), ("capacity", 1e18), ("capacity", None),
    ("size", 0), ("size", NAN), ("size", "1"), ("size", -3.0), ("size", [1]),
    ("removed", -1), ("removed", NAN), ("removed", None),
    ("random", None), ("random", {}), ("random", {"bit_generator": "MT19937"}), ("random", 3), ("random", []),
    ("random__state", {"state": -1, "inc": "x"}), ("random__state", {"state": 1 << 300, "inc": 1}),
    ("random__uinteger", "x"),
    ("views", None), ("views", []), ("views", [1, 2]), ("views", "abc"), ("views", {"a": 1}),
    ("state", None), ("state", []), ("state__step", 3), ("state__num_splats", 5), ("state__num_splats", ...),
    ("state__view", 99), ("state__view", -1), ("state__sh_degree", 4), ("state__sh_degree", "x"),
    ("state__lr", [1, 2]), ("state__lr", NAN), ("state__lr", [NAN] * 6), ("state__background", [1e300, 0, 0]),
    ("state__background", [[0], [0], [0]]), ("state__inv_bias1", NAN), ("state__num_pairs", -1),
    ("state__num_pairs", 1 << 32), ("state__skipped_steps", 1.5), ("state__loss", "x"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), FACTS, ids=[f"{key}-{value!a:.30}" for key, value in FACTS])
def test_wrong_metadata(whole, tmp_path, key, value):
    assert_refused(tampered(whole, tmp_path / "step_60.npz", **{key: value}))


@pytest.mark.parametrize("name", ["params", "moments", "stats"])
@pytest.mark.parametrize("how", ["missing", "double", "text", "narrow", "flat", "short", "scalar"])
def test_wrong_arrays(whole, tmp_path, name, how):
    array = whole.arrays[name]
    changed = {
        "missing": ..., "double": array.astype(np.float64), "text": array.astype("U9"), "narrow": array[:, :0],
        "flat": array.ravel(), "short": array[:-1], "scalar": np.float32(1),
    }[how]  # fmt: skip
    assert_refused(tampered(whole, tmp_path / "step_60.npz", [(name, changed)]))


def test_a_nonfinite_loss_is_valid(whole, tmp_path):
    read_checkpoint(tampered(whole, tmp_path / "step_60.npz", state__loss=NAN, state__psnr=NAN))


@pytest.fixture
def copy(finished, tmp_path):
    """A run that was killed after its newest checkpoint; the checkpoints before it are gone."""
    run = RunDir(shutil.copytree(finished.path, tmp_path / "run"))
    run.result_path.unlink()
    for path in checkpoint_paths(run.checkpoints_path)[1:]:
        path.unlink()
    return run


def test_tampered_checkpoint_is_set_aside(training, whole, copy):
    path = checkpoint_paths(copy.checkpoints_path)[0]
    tampered(whole, path, capacity=1)
    with pytest.raises(FormatError, match=r"no checkpoint of the run can be read, .*room for 1 splats"):
        training.resume(copy.path, steps=70)
    assert path.with_name(path.name + ".unreadable").is_file()


def test_another_sh_degree_than_that_of_the_run(training, whole, copy):
    arrays = [(name, whole.arrays[name][:14]) for name in ("params", "moments")]
    tampered(whole, checkpoint_paths(copy.checkpoints_path)[0], arrays, state__sh_degree=0)
    with pytest.raises(FormatError, match=r"does not fit the run's settings: its `params` is \[14"):
        training.resume(copy.path, steps=70)


def test_capacity_is_limited_by_the_run(training, whole, copy):
    tampered(whole, checkpoint_paths(copy.checkpoints_path)[0], capacity=1 << 50)
    training.resume(copy.path, steps=62)
    assert copy.result()["steps"] == 62


@pytest.mark.parametrize("change", [lambda poses: ..., lambda poses: poses[:, :2], lambda poses: poses * np.nan])
def test_poses_that_do_not_fit(training, tmp_path, change):
    run = training.new(tmp_path / "run", steps=6, pose_opt=True, checkpoint_every=0, save_at=())
    (path,) = checkpoint_paths(run.checkpoints_path)
    whole = read_checkpoint(path)
    tampered(whole, path, [("poses", change(whole.arrays["poses"]))])
    with pytest.raises(FormatError, match=r"its `poses` is (missing|\[|not finite)"):
        training.resume(run.path, steps=8)
