"""lod-meta.json and its chunks, as the format's specification has them."""

import json
import zipfile

import numpy as np
import pytest

from splat_cli.errors import FormatError
from splat_cli.gaussians.formats import streamed_sog
from splat_cli.gaussians.formats.sog import read_sog
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


def test_no_splats(tmp_path):
    with pytest.raises(FormatError, match="keep some"):
        write_streamed_sog(tmp_path / "lod-meta.json", some_splats(0), 2)
