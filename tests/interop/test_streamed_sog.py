"""Our Streamed SOG, as splat-transform reads it."""

import numpy as np

from splat_cli.gaussians.formats import streamed_sog
from splat_cli.gaussians.ply import read_ply
from tests.gaussians.some_splats import some_splats


def test_the_finest_level_has_all_splats(splat_transform, tmp_path, monkeypatch):
    monkeypatch.setattr(streamed_sog, "LEAF_SPLATS", 200)
    splats = some_splats(500, degree=1, log_scales=(-3, 0.3))
    streamed_sog.write_streamed_sog(tmp_path / "lod-meta.json", splats, 3)
    splat_transform(tmp_path / "lod-meta.json", tmp_path / "all.ply")
    found = read_ply(tmp_path / "all.ply")
    for name in ("means", "sh0"):
        expected, array = (np.sort(getattr(one, name), axis=0) for one in (splats, found))
        np.testing.assert_allclose(array, expected, atol=0.05)
