"""Depth maps and laser scans, written for tests."""

import numpy as np
import pytest
from PIL import Image as Picture


def write_exr(path, values, channel="Z"):
    exr = pytest.importorskip("OpenEXR", reason="OpenEXR files are read with OpenEXR (extra exr)")
    header = {"compression": exr.ZIP_COMPRESSION, "type": exr.scanlineimage}
    exr.File(header, {channel: values.astype(np.float32)}).write(str(path))


def write_map(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, values)
    elif path.suffix == ".exr":
        write_exr(path, values)
    else:
        Picture.fromarray(values).save(path)


def write_las(path, positions, colors=None, point_format=2, version="1.2", classes=None):
    laspy = pytest.importorskip("laspy", reason="LAS files are read with laspy (extra las)")
    las = laspy.create(point_format=point_format, file_version=version)
    las.header.scales, las.header.offsets = [1e-4] * 3, np.floor(positions.min(axis=0))
    las.x, las.y, las.z = positions.T
    if colors is not None:
        las.red, las.green, las.blue = colors.T
    if classes is not None:
        las.classification = classes
    las.write(str(path))
