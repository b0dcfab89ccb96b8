"""Structs and constants that kernels and Python both declare agree."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.field.color_field import BOUNDS_DTYPE, RATE
from splat_cli.field.hash_grid import LEVEL_DTYPE
from splat_cli.gaussians.splats import LOG_SCALES, MEANS, OPACITIES, OPACITY, QUATS, SH0, SHN
from splat_cli.io.files import resource_dir
from splat_cli.joint.depth.supervision import DEPTH_MAP_DTYPE
from splat_cli.ranks.protocol import RANK_BLOCK, SHARE_DTYPE
from splat_cli.render.blend import SEGMENT
from splat_cli.render.camera import CAMERA_DTYPE, LENS_MODEL_DTYPE, TILE
from splat_cli.render.iter_state import ITER_STATE_DTYPE, LEARNING_RATES
from splat_cli.render.project import (
    BATCH_VIEW_BYTES,
    LARGE_BOX,
    SLOT_LAYOUT_DTYPE,
    SPLAT_SUMS,
    SUM_COLORS,
    UPDATE_OPTIONS_DTYPE,
)
from splat_cli.scene.lens.undistort import _LENS_DTYPE, _PINHOLE_DTYPE
from splat_cli.train.multi_gpu.sharded_views import VIEW_MESSAGES_DTYPE
from splat_cli.train.schedule import SCHEDULE_DTYPE
from tests.conftest import DEVICES

# Struct, its file, its dtype, and fields of the dtype that have another name: field -> (first) member.
STRUCTS: list[tuple[str, str, np.dtype, dict[str, str]]] = [
    ("Camera", "common.cuh", CAMERA_DTYPE, {}),
    ("IterState", "common.cuh", ITER_STATE_DTYPE, {}),
    ("Schedule", "optim/begin_step.cu", SCHEDULE_DTYPE, {}),
    ("Share", "common.cuh", SHARE_DTYPE, {}),
    ("SlotLayout", "raster/slots.cuh", SLOT_LAYOUT_DTYPE, {}),
    ("ViewMessages", "raster/visible.cuh", VIEW_MESSAGES_DTYPE, {}),
    ("UpdateOptions", "raster/update.cuh", UPDATE_OPTIONS_DTYPE, {}),
    ("DepthMap", "optim/depth_maps.cu", DEPTH_MAP_DTYPE, {}),
    ("Level", "field/hash_grid.cu", LEVEL_DTYPE, {}),
    ("FieldBounds", "field/color_field.cu", BOUNDS_DTYPE, {}),
    ("Lens", "image/undistort.cu", _LENS_DTYPE, {"matrix": "fx", "coefficients": "c"}),
    ("LensModel", "lens/lens.cuh", LENS_MODEL_DTYPE, {}),
    ("Pinhole", "image/undistort.cu", _PINHOLE_DTYPE, {"matrix": "fx"}),
]

NUMBERS: list[tuple[str, str, float]] = [
    ("sizeof(BatchView)", "common.cuh", BATCH_VIEW_BYTES), ("RANK_BLOCK", "common.cuh", RANK_BLOCK),
    ("TILE", "common.cuh", TILE), ("SEGMENT", "common.cuh", SEGMENT),
    ("SPLAT_SUMS", "common.cuh", SPLAT_SUMS), ("SUM_RED", "common.cuh", SUM_COLORS.start),
    ("SUM_RED + 3", "common.cuh", SUM_COLORS.stop),
    ("ROW_MEAN", "common.cuh", MEANS.start), ("ROW_LOG_SCALE", "common.cuh", LOG_SCALES.start),
    ("ROW_QUAT", "common.cuh", QUATS.start), ("ROW_OPACITY", "common.cuh", OPACITIES.start),
    ("ROW_OPACITY", "common.cuh", OPACITY), ("ROW_SH0", "common.cuh", SH0.start), ("ROW_SHN", "common.cuh", SHN.start),
    ("NUM_LR", "common.cuh", len(LEARNING_RATES)), ("LR_FIELD", "common.cuh", RATE),
    *((f"LR_{name.upper()}", "common.cuh", k) for k, name in enumerate(LEARNING_RATES)),
    ("LARGE_BOX", "raster/tile_walk.cuh", LARGE_BOX),
]  # fmt: skip


@pytest.fixture(params=DEVICES)
def evaluate(
    request: pytest.FixtureRequest, open_device: Callable[..., Backend], tmp_path: Path
) -> Callable[[str, list[str]], np.ndarray]:
    """Values of expressions in a kernel that includes a file, float64."""

    def values(file: str, expressions: list[str]) -> np.ndarray:
        lines = "".join(f"    out[{k}] = (double)({text});\n" for k, text in enumerate(expressions))
        (tmp_path / "border.cu").write_text(
            f'#include "{file}"\n'
            "__device__ int kind(float) { return 'f'; }\n__device__ int kind(double) { return 'f'; }\n"
            "template <class T> __device__ int kind(T) { return T(-1) < T(0) ? 'i' : 'u'; }\n"
            f'extern "C" __global__ void border(double* out)\n{{\n{lines}}}\n'
        )
        backend = open_device(request.param, tmp_path)
        out = backend.xp.zeros(len(expressions))
        backend.kernel("border", "border")((1,), (1,), out)
        return backend.download(out)

    return values


@pytest.mark.parametrize(("name", "file", "dtype", "renamed"), STRUCTS, ids=[struct[0] for struct in STRUCTS])
def test_struct_is_its_dtype(
    evaluate: Callable[[str, list[str]], np.ndarray], name: str, file: str, dtype: np.dtype, renamed: dict[str, str]
) -> None:
    """Offset, size and kind (float, signed, unsigned) of each member, and the size of the whole."""
    expressions, expected = [f"sizeof({name})"], [dtype.itemsize]
    assert dtype.fields is not None
    for field, (member_dtype, offset, *_) in dtype.fields.items():
        member = renamed.get(field, field)
        is_array = bool(member_dtype.shape) and member != "fx"
        place = f"(char*)&(({name}*)out)->{member} - (char*)out"
        expressions += [place, f"kind((({name}*)out)->{member}{'[0]' * is_array})"]
        expected += [offset, ord(member_dtype.base.kind)]
        if member != "fx" or not member_dtype.shape:
            expressions.append(f"sizeof((({name}*)out)->{member})")
            expected.append(member_dtype.itemsize)
    np.testing.assert_array_equal(evaluate(file, expressions), expected)


def test_every_mirrored_struct_is_compared() -> None:
    """In kernels, the comment `mirrors this layout` is above each struct that the host fills."""
    sources = [path.read_text() for path in resource_dir("cuda_src").rglob("*.cu*")]
    mirrored = {name for text in sources for name in re.findall(r"mirrors this layout\.\nstruct (\w+)", text)}
    assert mirrored == {name for name, *_ in STRUCTS}


@pytest.mark.parametrize("file", sorted({file for _, file, _ in NUMBERS}))
def test_numbers_are_the_same(evaluate: Callable[[str, list[str]], np.ndarray], file: str) -> None:
    names = [name for name, where, _ in NUMBERS if where == file]
    expected = [value for _, where, value in NUMBERS if where == file]
    np.testing.assert_array_equal(evaluate(file, names), expected, err_msg=", ".join(names))
