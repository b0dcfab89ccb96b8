"""OpenUSD (.usdc, .usda): splats as a prim ParticleField3DGaussianSplat, a schema of OpenUSD 26.03 and later.

Scales are standard deviations, opacities 0 to 1, quaternions w x y z; the coefficients of a splat follow each other.
The stage has y up: axes right, up, back. Files are written, not read.
"""

import shutil
import tempfile
from pathlib import Path

import numpy as np

from splat_cli.errors import DiskError, UsageError
from splat_cli.gaussians.arrays import SplatArrays, opacities
from splat_cli.gaussians.editing.decimate import extents
from splat_cli.gaussians.editing.move import rotated
from splat_cli.gaussians.formats.quantize import unit_quats
from splat_cli.io.files import replacing
from splat_cli.terminal.interrupt import deferred_interrupt

SUFFIXES = (".usdc", ".usda")
"""Binary and text."""
_HALF_TURN = np.diag([1.0, -1.0, -1.0])
_MAX_LOG_SCALE = 80.0
_DEVIATIONS = 3.0
"""Extent of a splat in the bounds of the prim, in standard deviations."""


def require_usd() -> None:
    """UsageError if usd-core is missing or too old; called before long work."""
    try:
        with deferred_interrupt() as check:  # OpenUSD's C++ prints the exception and goes on
            from pxr import UsdVol
    except ImportError:
        raise UsageError("OpenUSD needs usd-core: pip install 'splat-cli[usd]'") from None
    check()
    if not hasattr(UsdVol, "ParticleField3DGaussianSplat"):
        raise UsageError("this usd-core has no splats: expected 26.3 or newer; pip install -U 'splat-cli[usd]'")


def write_usd(path: Path, splats: SplatArrays) -> None:
    """Write a stage with the default prim /Splats, as text if the suffix is .usda. UsageError: see `require_usd`.

    OpenUSD writes it to the system's temporary folder, since it reads options in names, which have to be UTF-8.
    """
    require_usd()
    from pxr import Tf

    with replacing(path) as temporary, tempfile.TemporaryDirectory() as folder:
        stage = Path(folder) / f"splats{path.suffix.lower()}"  # the suffix chooses the encoding
        try:
            _write_stage(stage, rotated(splats, _HALF_TURN))
        except Tf.ErrorException as error:
            raise DiskError(f"{path} was not written: OpenUSD cannot write to {folder}; free space there") from error
        shutil.copyfile(stage, temporary)


def _write_stage(path: Path, splats: SplatArrays) -> None:
    from pxr import Gf, Usd, UsdGeom, UsdVol, Vt

    sh = np.concatenate([splats.sh0[:, None], splats.shN], axis=1).reshape(-1, 3)
    scales = np.exp(np.clip(splats.log_scales, -_MAX_LOG_SCALE, _MAX_LOG_SCALE))
    corners = np.stack(extents(splats, _DEVIATIONS)) if len(splats) else np.zeros((2, 3))
    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.y)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    field = UsdVol.ParticleField3DGaussianSplat.Define(stage, "/Splats")
    stage.SetDefaultPrim(field.GetPrim())
    field.CreatePositionsAttr(Vt.Vec3fArray.FromNumpy(splats.means))
    field.CreateScalesAttr(Vt.Vec3fArray.FromNumpy(scales))
    quats = unit_quats(splats.quats).tolist()
    field.CreateOrientationsAttr(Vt.QuatfArray([Gf.Quatf(*quat) for quat in quats]))
    field.CreateOpacitiesAttr(Vt.FloatArray.FromNumpy(opacities(splats).astype(np.float32)))
    field.CreateRadianceSphericalHarmonicsDegreeAttr(splats.sh_degree)
    field.CreateRadianceSphericalHarmonicsCoefficientsAttr(Vt.Vec3fArray.FromNumpy(sh))
    field.CreateExtentAttr(Vt.Vec3fArray.FromNumpy(corners.astype(np.float32)))
    stage.Save()
