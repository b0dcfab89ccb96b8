"""Files that other programs wrote (tests/interop/make_golden.mjs) contain the original numbers."""

import json
from pathlib import Path

import numpy as np
import pytest

from splat_cli.gaussians.formats import read_splats

GOLDEN = Path(__file__).parent / "golden"
SPLATS = json.loads((GOLDEN / "splats.json").read_text())
SPZ = {"mean": 1e-3, "log_scales": 1 / 32, "quat": 0.002, "opacity": 0.002, "sh0": 0.014, "shN": 1 / 128}
LIMITS = {
    "adobe_v3.spz": SPZ,
    "adobe_v4.spz": SPZ,
    "splat_transform_v3.spz": SPZ | {"shN": 1 / 16},  # 5 bits of the first band, 4 of the others
    "splat_transform_v4.spz": SPZ | {"shN": 1 / 16},
    "spark.spz": SPZ | {"shN": 1 / 16, "quat": 0.032},  # version 2: bytes of x, y, z
    "splat_transform.compressed.ply": {
        "mean": 0.02,
        "log_scales": 0.004,
        "quat": 0.001,
        "opacity": 0.002,
        "sh0": 0.01,
        "shN": 1 / 64,
    },
    "splat_transform.sog": {
        "mean": 0.002,
        "log_scales": 0.001,
        "quat": 0.006,
        "opacity": 0.004,
        "sh0": 0.001,
        "shN": 0.001,
    },
}
"""File -> maximum error of each number, which follows from its number of bits."""


def nearest_splat(splats, mean):
    """Index of the splat nearest to `mean`: formats change the order."""
    return int(np.abs(splats.means - mean).max(axis=1).argmin())


@pytest.mark.parametrize("name", LIMITS)
def test_numbers_of_a_file_of_another_program(name):
    splats = read_splats(GOLDEN / name, spz_axes="RUB" if "adobe" in name else "RDF")
    assert (len(splats), splats.sh_degree, splats.num_dropped) == (len(SPLATS), 3, 0)
    assert splats.antialiased == ("splat_transform" not in name)  # Spark always sets this flag
    for stated in SPLATS:
        i = nearest_splat(splats, stated["mean"])
        quat = splats.quats[i] * np.sign(splats.quats[i] @ stated["quat"])
        found = {
            "mean": splats.means[i],
            "log_scales": splats.log_scales[i],
            "quat": quat / np.linalg.norm(quat),
            "opacity": 1 / (1 + np.exp(-splats.logit_opacities[i])),
            "sh0": splats.sh0[i],
            "shN": splats.shN[i],
        }
        wanted = stated | {"opacity": 1 / (1 + np.exp(-stated["logit_opacity"]))}
        for key, limit in LIMITS[name].items():
            np.testing.assert_allclose(found[key], wanted[key], rtol=0, atol=limit, err_msg=key)
