""".splat, the layout of the antimatter15 viewer: 32 bytes per splat, no header, no spherical harmonics.

Position and standard deviations as floats, colour and opacity as bytes, and the components of the
quaternion as bytes: 128 + 128 x.
"""

from pathlib import Path

import numpy as np

from splat_cli.errors import FormatError
from splat_cli.gaussians.arrays import SH_C0, SplatArrays
from splat_cli.gaussians.formats.quantize import logits_from_bytes, opacity_bytes, to_bytes, unit_quats
from splat_cli.gaussians.ply import finite_splats
from splat_cli.io.files import replacing
from splat_cli.io.json_input import read_bytes

_RECORD = np.dtype(
    [("mean", "<f4", 3), ("scale", "<f4", 3), ("color", "u1", 3), ("opacity", "u1"), ("quat", "u1", 4)],
)
_MAX_LOG_SCALE = 80.0
"""Limit of log scales: larger ones overflow float32."""


def write_dot_splat(path: Path, splats: SplatArrays) -> None:
    """Write the splats; higher spherical harmonics are dropped, colours are clamped to 0..1."""
    rows = np.empty(len(splats), _RECORD)
    rows["mean"] = splats.means
    rows["scale"] = np.exp(np.clip(splats.log_scales, -_MAX_LOG_SCALE, _MAX_LOG_SCALE))
    rows["color"] = to_bytes(255 * (0.5 + SH_C0 * splats.sh0.astype(np.float64)))
    rows["opacity"] = opacity_bytes(splats)
    rows["quat"] = to_bytes(128 + 128 * unit_quats(splats.quats))
    with replacing(path) as temporary:
        temporary.write_bytes(rows.tobytes())


def read_dot_splat(path: Path) -> SplatArrays:
    """Read the splats, of SH degree 0. FormatError if the length is not a multiple of 32 bytes."""
    content = read_bytes(path)
    if len(content) % _RECORD.itemsize:
        raise FormatError(
            f"{path} holds {len(content)} bytes, not a multiple of {_RECORD.itemsize}: "
            "it is truncated or not a .splat file; export it again"
        )
    rows = np.frombuffer(content, _RECORD)
    with np.errstate(divide="ignore", invalid="ignore"):  # splats with non-positive scales are dropped
        log_scales = np.log(rows["scale"])
    splats = SplatArrays(
        means=rows["mean"].astype(np.float32),
        log_scales=log_scales.astype(np.float32),
        quats=((rows["quat"].astype(np.float32) - 128) / 128),
        logit_opacities=logits_from_bytes(rows["opacity"]),
        sh0=((rows["color"].astype(np.float32) / 255 - 0.5) / np.float32(SH_C0)),
        shN=np.zeros((len(rows), 0, 3), np.float32),
    )
    return finite_splats(splats)
