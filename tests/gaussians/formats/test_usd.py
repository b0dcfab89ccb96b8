"""OpenUSD files, read and validated by usd-core itself."""

import os
import signal
import sys

import numpy as np
import pytest

from splat_cli.errors import DiskError, UsageError
from splat_cli.gaussians.arrays import opacities
from splat_cli.gaussians.formats import usd
from splat_cli.gaussians.formats.usd import write_usd
from tests.gaussians.formats.test_round_trips import splats_in_range

pxr = pytest.importorskip("pxr")


@pytest.mark.parametrize("suffix", usd.SUFFIXES)
@pytest.mark.parametrize("degree", [0, 3])
def test_stage_has_the_schema_and_the_numbers(tmp_path, suffix, degree):
    from pxr import Usd, UsdGeom, UsdValidation, UsdVol

    splats = splats_in_range(40, degree)
    write_usd(tmp_path / f"a{suffix}", splats)
    stage = Usd.Stage.Open(str(tmp_path / f"a{suffix}"))
    validators = UsdValidation.ValidationRegistry().GetOrLoadAllValidators()
    assert len(validators) > 20
    errors = UsdValidation.ValidationContext(validators).Validate(stage)
    assert [error.GetMessage() for error in errors] == []
    field = UsdVol.ParticleField3DGaussianSplat(stage.GetDefaultPrim())
    assert field
    assert UsdGeom.GetStageUpAxis(stage) == "Y"
    assert (tmp_path / f"a{suffix}").read_bytes().startswith(b"#usda" if suffix == ".usda" else b"PXR-USDC")
    assert [path.name for path in tmp_path.iterdir()] == [f"a{suffix}"]
    positions = np.array(field.GetPositionsAttr().Get())
    np.testing.assert_allclose(positions, splats.means * [1, -1, -1], rtol=1e-6)
    np.testing.assert_allclose(np.array(field.GetScalesAttr().Get()), np.exp(splats.log_scales), rtol=1e-5)
    np.testing.assert_allclose(np.array(field.GetOpacitiesAttr().Get()), opacities(splats), atol=1e-6)
    assert field.GetRadianceSphericalHarmonicsDegreeAttr().Get() == degree
    sh = np.array(field.GetRadianceSphericalHarmonicsCoefficientsAttr().Get()).reshape(40, -1, 3)
    assert sh.shape[1] == (degree + 1) ** 2
    np.testing.assert_allclose(sh[:, 0], splats.sh0, rtol=1e-6)
    low, high = np.array(field.GetExtentAttr().Get())
    assert (low < positions).all()
    assert (high > positions).all()
    lengths = [quat.GetLength() for quat in field.GetOrientationsAttr().Get()]
    np.testing.assert_allclose(lengths, 1, atol=1e-6)


def test_rotation_of_a_splat_is_that_of_the_stage(tmp_path):
    """The longest axis of a splat points the same way, with y and z reversed."""
    from pxr import Gf, Usd, UsdVol

    splats = splats_in_range(1)
    write_usd(tmp_path / "a.usdc", splats)
    stage = Usd.Stage.Open(str(tmp_path / "a.usdc"))
    field = UsdVol.ParticleField3DGaussianSplat(stage.GetDefaultPrim())
    quat = field.GetOrientationsAttr().Get()[0]
    axis = np.array(Gf.Rotation(quat).TransformDir(Gf.Vec3d(1, 0, 0)))
    w, x, y, z = splats.quats[0].astype(float) / np.linalg.norm(splats.quats[0].astype(float))
    expected = np.array([1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)]) * [1, -1, -1]
    np.testing.assert_allclose(axis, expected, atol=1e-5)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
@pytest.mark.parametrize("name", [b"a:SDF_FORMAT_ARGS:x=1.usdc", b"a\xff.usdc"])
def test_names_that_openusd_refuses_can_be_written(tmp_path, name):
    write_usd(tmp_path / os.fsdecode(name), splats_in_range(3))
    assert (tmp_path / os.fsdecode(name)).read_bytes().startswith(b"PXR-USDC")


def test_a_full_disk_gives_one_line(tmp_path):
    """The limit of a file's size stops writes like a full disk."""
    resource = pytest.importorskip("resource")
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        with pytest.raises(DiskError) as caught:
            write_usd(tmp_path / "a.usdc", splats_in_range(40))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert str(caught.value).startswith(f"{tmp_path / 'a.usdc'} was not written: OpenUSD cannot write to ")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_missing_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pxr", None)
    with pytest.raises(UsageError, match="OpenUSD needs usd-core: pip install"):
        write_usd(tmp_path / "a.usdc", splats_in_range(2))


def test_an_interrupt_while_openusd_is_imported_is_not_lost(monkeypatch, tmp_path):
    (tmp_path / "pxr.py").write_text(
        "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept KeyboardInterrupt:\n    pass\n"
        "class UsdVol:\n    ParticleField3DGaussianSplat = None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pxr")
    with pytest.raises(KeyboardInterrupt):
        usd.require_usd()


def test_export_writes_usd(splat, trained, tmp_path):
    out = tmp_path / "toy.usda"
    done = splat("export", trained, out, "--no-bake")
    assert done.code == 0, done.err
    assert out.read_text().startswith("#usda 1.0")
