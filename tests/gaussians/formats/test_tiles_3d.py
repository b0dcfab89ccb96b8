"""tileset.json and its tiles: all splats in the finest level, boxes around them, extensions that CesiumJS expects."""

import json

import numpy as np
import pytest

from splat_cli.errors import FormatError
from splat_cli.gaussians.formats import streamed_sog, tiles_3d
from splat_cli.gaussians.formats.gltf import read_glb
from splat_cli.gaussians.formats.tiles_3d import write_tileset
from tests.gaussians.some_splats import some_splats


@pytest.fixture
def written(tmp_path, monkeypatch):
    """(folder, splats, two of which are large, numbers of splats by level, tileset.json)"""
    monkeypatch.setattr(tiles_3d, "LEAF_SPLATS", 100)
    splats = some_splats(500, degree=1, log_scales=(-3, 0.3))
    splats.log_scales[[3, 8], 1] = 2
    counts = write_tileset(tmp_path / "tileset.json", splats)
    return tmp_path, splats, counts, json.loads((tmp_path / "tileset.json").read_text())


def tiles(tile):
    return [tile, *(below for child in tile.get("children", ()) for below in tiles(child))]


def points_of(folder, tile):
    """Means [N, 3] of a tile's splats in the axes of tiles: right, forward, up."""
    return read_glb(folder / tile["content"]["uri"]).means @ np.array([(1, 0, 0), (0, 0, 1), (0, -1, 0)]).T


def box_of(tile):
    """(centre [3], half sizes [3]); its axes are those of tiles."""
    numbers = np.array(tile["boundingVolume"]["box"])
    half = numbers[3:].reshape(3, 3)
    assert np.array_equal(half, np.diag(np.diag(half)))
    return numbers[:3], np.diag(half)


def test_leaves_have_all_splats(written):
    folder, splats, counts, index = written
    leaves = [tile for tile in tiles(index["root"]) if "children" not in tile]
    assert all(leaf["geometricError"] == 0 for leaf in leaves)
    found = np.concatenate([read_glb(folder / leaf["content"]["uri"]).means for leaf in leaves])
    np.testing.assert_allclose(np.sort(found, axis=0), np.sort(splats.means, axis=0), atol=1e-3)
    assert counts == [500, 250, 126, 63]


def test_coarser_tiles_are_replaced(written):
    folder, _, _, index = written
    for tile in tiles(index["root"]):
        if "content" in tile:
            assert len(read_glb(folder / tile["content"]["uri"])) <= 100
            assert tile["refine"] == "REPLACE"
        for child in tile.get("children", ()):
            assert child["geometricError"] < tile["geometricError"]
    assert index["geometricError"] > index["root"]["geometricError"]


def test_boxes_hold_splats_and_children(written):
    folder, _, _, index = written
    for tile in tiles(index["root"]):
        center, half = box_of(tile)
        if "content" in tile:
            assert (np.abs(points_of(folder, tile) - center) < half).all()
        for child in tile.get("children", ()):
            inner, size = box_of(child)
            assert (np.abs(inner - center) + size <= half + 1e-6).all()


def test_large_splats_are_always_shown(written):
    root = written[3]["root"]
    assert root["refine"] == "ADD"
    assert "content" not in root
    assert len(read_glb(written[0] / root["children"][1]["content"]["uri"])) == 2


def test_cesium_finds_the_extensions(written):
    """It shows splats only if the tileset requires both."""
    required = written[3]["extensions"]["3DTILES_content_gltf"]["extensionsRequired"]
    assert required == ["KHR_gaussian_splatting", "KHR_gaussian_splatting_compression_spz_2"]


def test_small_scene_is_one_tile(tmp_path):
    assert write_tileset(tmp_path / "tileset.json", some_splats(60, log_scales=(-3, 0))) == [60]
    assert [file.name for file in tmp_path.glob("*.glb")] == ["0_0.glb"]
    assert streamed_sog.LEAF_SPLATS == 65_536


def test_no_tiles_without_splats(tmp_path):
    with pytest.raises(FormatError, match="no splats are left"):
        write_tileset(tmp_path / "tileset.json", some_splats(0))
    assert not list(tmp_path.iterdir())
