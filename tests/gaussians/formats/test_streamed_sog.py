"""lod-meta.json and its chunks, as in the format's specification."""

import errno
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from splat_cli.errors import DiskError, FormatError
from splat_cli.gaussians.formats import streamed_sog
from splat_cli.gaussians.formats.sog import read_sog, sog_files
from splat_cli.gaussians.formats.streamed_sog import write_streamed_sog
from tests.gaussians.some_splats import some_splats


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.setattr(streamed_sog, "LEAF_SPLATS", 100)
    splats = some_splats(500, degree=1, log_scales=(-3, 0.3))
    counts = write_streamed_sog(tmp_path / "lod-meta.json", splats, 3)
    return tmp_path, splats, counts, json.loads((tmp_path / "lod-meta.json").read_text())


def leaves(node):
    return [node] if "lods" in node else [leaf for child in node["children"] for leaf in leaves(child)]


def chunk(folder, tmp_path):
    """An unpacked .sog, read as a packed one."""
    packed = tmp_path / "chunk.sog"
    with zipfile.ZipFile(packed, "w") as file:
        for path in folder.iterdir():
            file.write(path, path.name)
    return read_sog(packed)


def test_index(written):
    folder, splats, counts, index = written
    assert (index["version"], index["lodLevels"], index["counts"]) == (1, 3, counts)
    assert counts[0] == len(splats)
    assert index["count"] == sum(counts)
    assert all((folder / name).is_file() for name in index["filenames"])
    assert len(leaves(index["tree"])) == 8
    assert [counts[1] - counts[0] / 2, counts[2] - counts[0] / 4] < [8, 8]


def test_each_leaf_has_all_levels(written, tmp_path):
    folder, splats, _, index = written
    means = []
    for leaf in leaves(index["tree"]):
        assert sorted(leaf["lods"]) == ["0", "1", "2"]
        sizes = [leaf["lods"][str(level)]["count"] for level in range(3)]
        assert sizes[0] <= 100
        assert sizes[1:] == [(size + 1) // 2 for size in sizes[:2]]
        for lod in leaf["lods"].values():
            part = chunk((folder / index["filenames"][lod["file"]]).parent, tmp_path)
            assert (lod["offset"], lod["count"]) == (0, len(part))
            assert (part.means >= np.array(leaf["bound"]["min"]) - 0.01).all()
            assert (part.means <= np.array(leaf["bound"]["max"]) + 0.01).all()
            if lod is leaf["lods"]["0"]:
                means.append(part.means)
    np.testing.assert_allclose(np.sort(np.concatenate(means), axis=0), np.sort(splats.means, axis=0), atol=1e-3)


def test_bounds_hold_those_of_children(written):
    def check(node):
        for child in node.get("children", ()):
            assert (np.array(child["bound"]["min"]) >= node["bound"]["min"]).all()
            assert (np.array(child["bound"]["max"]) <= node["bound"]["max"]).all()
            check(child)

    check(written[3]["tree"])


def test_large_splats_are_always_shown(tmp_path):
    splats = some_splats(60, degree=0, log_scales=(-4, 0.1))
    splats.log_scales[[3, 8], 1] = 2
    counts = write_streamed_sog(tmp_path / "lod-meta.json", splats, 2)
    index = json.loads((tmp_path / "lod-meta.json").read_text())
    assert (index["environment"], counts) == ("env/meta.json", [58, 29])
    assert len(chunk(tmp_path / "env", tmp_path)) == 2
    assert np.ptp([index["tree"]["bound"]["min"], index["tree"]["bound"]["max"]], axis=0).max() < 10


def contents(folder):
    return {str(path.relative_to(folder)): path.is_file() and path.read_bytes() for path in folder.rglob("*")}


@pytest.mark.parametrize("failing", [2, 5])
def test_a_failed_write_leaves_what_was_there(written, monkeypatch, failing):
    def files_or_failure(splats):
        calls.append(splats)
        if len(calls) == failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        return sog_files(splats)

    folder, before, calls = written[0], contents(written[0]), []
    monkeypatch.setattr(streamed_sog, "sog_files", files_or_failure)
    with pytest.raises(DiskError, match=r"lod-meta\.json was not written: no space left"):
        write_streamed_sog(folder / "lod-meta.json", some_splats(300, degree=1, log_scales=(-3, 0.3)), 2)
    assert contents(folder) == before


def test_an_index_is_never_beside_chunks_of_another_write(written, monkeypatch):
    def replace_or_failure(path, target):
        moved.append(target)
        if len(moved) == 5:
            raise OSError(errno.EIO, "Input/output error")
        return replace(path, target)

    folder, moved, replace = written[0], [], Path.replace
    monkeypatch.setattr(Path, "replace", replace_or_failure)
    with pytest.raises(DiskError):
        write_streamed_sog(folder / "lod-meta.json", some_splats(300, degree=1, log_scales=(-3, 0.3)), 2)
    assert not (folder / "lod-meta.json").exists()
    assert not [path for path in folder.rglob("*") if path.name.endswith(".part")]
    monkeypatch.undo()
    (folder / "env").mkdir(exist_ok=True)
    (folder / "env" / "notes.txt").write_text("of others")
    write_streamed_sog(folder / "lod-meta.json", some_splats(300, degree=1, log_scales=(-3, 0.3)), 2)
    assert json.loads((folder / "lod-meta.json").read_text())["lodLevels"] == 2
    assert (folder / "env" / "notes.txt").is_file()


def test_no_splats(tmp_path):
    with pytest.raises(FormatError, match="keep some"):
        write_streamed_sog(tmp_path / "lod-meta.json", some_splats(0), 2)
