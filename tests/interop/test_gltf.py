"""Our .glb, compared with splat-transform's and checked by the validator of Khronos."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from splat_cli.gaussians.formats import read_splats, write_splats
from tests.gaussians.formats.differences import differences
from tests.gaussians.formats.test_round_trips import splats_in_range
from tests.subprocesses import finished

VALIDATOR = Path(__file__).parent / "node_modules/gltf-validator"
VALIDATE = """
const validator = require(process.argv[1]);
const all = process.argv.slice(2).map((file) => validator.validateBytes(require('fs').readFileSync(file)));
Promise.all(all).then((found) => console.log(JSON.stringify(found.flatMap((report) => report.issues.messages))));
"""


def attributes(path):
    """Name -> numbers of every attribute, read without the program under test."""
    data = path.read_bytes()
    length = int.from_bytes(data[12:16], "little")
    document, content = json.loads(data[20 : 20 + length]), data[28 + length :]
    arrays = {}
    for name, number in document["meshes"][0]["primitives"][0]["attributes"].items():
        accessor = document["accessors"][number]
        view = document["bufferViews"][accessor["bufferView"]]
        dtype = {5126: "<f4", 5121: "u1"}[accessor["componentType"]]
        part = content[view["byteOffset"] : view["byteOffset"] + view["byteLength"]]
        arrays[name] = np.frombuffer(part, dtype).astype(np.float32)
    return arrays


@pytest.fixture
def both(splat_transform, tmp_path):
    """(splats, our .glb, that of splat-transform)"""
    splats = splats_in_range(300)
    splats.quats /= np.linalg.norm(splats.quats, axis=1, keepdims=True)
    write_splats(tmp_path / "ours.ply", splats)
    write_splats(tmp_path / "ours.glb", splats)
    splat_transform(tmp_path / "ours.ply", tmp_path / "theirs.glb")
    return splats, tmp_path / "ours.glb", tmp_path / "theirs.glb"


def test_both_write_the_same_numbers(both):
    ours, theirs = attributes(both[1]), attributes(both[2])
    assert ours.keys() == theirs.keys()
    for name in ours:
        a, b = ours[name], theirs[name]
        if name.endswith(":ROTATION"):  # a quaternion and its negative are one rotation
            a, b = (q.reshape(-1, 4) * np.sign(q.reshape(-1, 4)[:, :1]) for q in (a, b))
        np.testing.assert_allclose(a, b, atol=1 if name == "COLOR_0" else 1e-5, err_msg=name)


def test_we_read_its_files(both):
    for name, error in differences(both[0], read_splats(both[2])).items():
        assert error <= (1e-4 if name == "rotation" else 1e-5), name


def test_validator_of_khronos_reports_only_unknown_names(tmp_path):
    """It knows no names that an extension defines (glTF-Validator issue 252): copies have names of applications."""
    node = shutil.which("node")
    if node is None or not VALIDATOR.is_dir():
        pytest.skip("no gltf-validator: needs Node.js and `npm install --prefix tests/interop`")
    names, of_applications = b'"KHR_gaussian_splatting:', b'"_HR_gaussian_splatting_'
    for name in ("a.glb", "a.spz.glb"):
        write_splats(tmp_path / name, splats_in_range(300))
        content = (tmp_path / name).read_bytes()
        assert content.count(names) == 19
        (tmp_path / f"copy-{name}").write_bytes(content.replace(names, of_applications))
    messages = reported([node, "-e", VALIDATE, str(VALIDATOR), *map(str, tmp_path.glob("a.*"))])
    assert len({m["pointer"] for m in messages if m["code"] == "UNSUPPORTED_EXTENSION"}) == 2  # it read both
    serious = {(m["code"], m["pointer"].partition(":")[0]) for m in messages if m["severity"] < 2}
    assert serious == {("MESH_PRIMITIVE_INVALID_ATTRIBUTE", "/meshes/0/primitives/0/attributes/KHR_gaussian_splatting")}
    messages = reported([node, "-e", VALIDATE, str(VALIDATOR), *map(str, tmp_path.glob("copy-*"))])
    assert [m for m in messages if m["severity"] < 2] == []


def reported(command):
    """The messages of the validator."""
    result = finished(command)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)
