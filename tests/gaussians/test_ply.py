"""PLY files: our files match the expectations of other programs, and we read theirs."""

import numpy as np
import plyfile
import pytest
from numpy.lib import recfunctions

from splat_cli.errors import FormatError, UsageError
from splat_cli.gaussians import ply
from splat_cli.gaussians.arrays import SH_C0
from splat_cli.gaussians.formats import read_splats, write_splats
from splat_cli.gaussians.ply import count_splats, ply_bytes, read_ply, splat_rows, stated_origin, write_ply
from splat_cli.scene.points.point_cloud import is_point_cloud, read_point_cloud
from tests.gaussians.some_splats import some_splats

NUM_REST = {0: 0, 1: 9, 2: 24, 3: 45}


def assert_same(one, other):
    for name, array in one.arrays().items():
        np.testing.assert_array_equal(array, getattr(other, name), err_msg=name)


def columns_of(splats):
    """Property name -> values, in the order of the INRIA code; f_rest holds channel after channel."""
    rest = [splats.shN[:, k, channel] for channel in range(3) for k in range(splats.shN.shape[1])]
    zeros = np.zeros(len(splats), np.float32)
    return (
        dict(zip("xyz", splats.means.T, strict=True))
        | dict.fromkeys(("nx", "ny", "nz"), zeros)
        | {f"f_dc_{i}": column for i, column in enumerate(splats.sh0.T)}
        | {f"f_rest_{i}": column for i, column in enumerate(rest)}
        | {"opacity": splats.logit_opacities}
        | {f"scale_{i}": column for i, column in enumerate(splats.log_scales.T)}
        | {f"rot_{i}": column for i, column in enumerate(splats.quats.T)}
    )


def write_foreign(path, columns, dtype="<f4", text=False, byte_order="<", before=(), after=(), comments=()):
    rows = np.zeros(len(next(iter(columns.values()))), [(name, dtype) for name in columns])
    for name, column in columns.items():
        rows[name] = column
    elements = [*before, plyfile.PlyElement.describe(rows, "vertex"), *after]
    plyfile.PlyData(elements, text=text, byte_order=byte_order, comments=["made elsewhere", *comments]).write(str(path))
    return path


@pytest.mark.parametrize("degree", range(4))
def test_round_trip(tmp_path, monkeypatch, degree):
    monkeypatch.setattr(ply, "CHUNK", 7)
    splats = some_splats(degree=degree)
    write_ply(tmp_path / "a.ply", splats)
    found = read_ply(tmp_path / "a.ply")
    assert_same(splats, found)
    assert found.dropped_sh_degree == 0
    for first in (5, len(splats)):
        assert_same(splats.select(slice(first, None)), read_ply(tmp_path / "a.ply", first))
    assert len(splat_rows(splats).tobytes()) == ply_bytes(len(splats), 14 + NUM_REST[degree])
    assert [path.name for path in tmp_path.iterdir()] == ["a.ply"]


def test_elements_that_are_not_read_are_named(tmp_path):
    """SHARP states colours of blending in one."""
    more = [plyfile.PlyElement.describe(np.zeros(1, [("a", "<i4")]), name) for name in ("color_space", "image_size")]
    path = write_foreign(tmp_path / "a.ply", columns_of(some_splats(5, 0)), after=more)
    assert read_ply(path).unread == ("color_space",)


def test_an_origin_that_is_not_finite_is_passed_over():
    assert stated_origin(["subtracted_origin: 1 nan 2", "subtracted_origin: 1", "subtracted_origin: 3 4 5"]) == (
        3,
        4,
        5,
    )


@pytest.mark.parametrize("degree", range(4))
def test_written_as_the_inria_code_does(tmp_path, degree):
    splats = some_splats(degree=degree)
    write_ply(tmp_path / "a.ply", splats)
    data = plyfile.PlyData.read(str(tmp_path / "a.ply"))
    assert (data.text, data.byte_order) == (False, "<")
    assert [element.name for element in data.elements] == ["vertex"]
    expected = columns_of(splats)
    rest = [f"f_rest_{i}" for i in range(NUM_REST[degree])]
    names = [
        "x",
        "y",
        "z",
        "nx",
        "ny",
        "nz",
        "f_dc_0",
        "f_dc_1",
        "f_dc_2",
        *rest,
        "opacity",
        "scale_0",
        "scale_1",
        "scale_2",
        "rot_0",
        "rot_1",
        "rot_2",
        "rot_3",
    ]
    assert [item.name for item in data["vertex"].properties] == names == list(expected)
    assert {str(item.val_dtype) for item in data["vertex"].properties} == {"f4"}
    for name, column in expected.items():
        np.testing.assert_array_equal(data["vertex"][name], column, err_msg=name)


@pytest.mark.parametrize(
    "options",
    [{}, {"byte_order": ">"}, {"text": True, "byte_order": "="}, {"dtype": "f8"}],
    ids=["little", "big", "text", "double"],
)
@pytest.mark.parametrize("degree", [0, 3])
def test_encodings(tmp_path, degree, options):
    splats = some_splats(degree=degree)
    assert_same(splats, read_ply(write_foreign(tmp_path / "a.ply", columns_of(splats), **options)))


def test_other_order_extra_properties_and_no_normals(tmp_path):
    splats = some_splats()
    columns = columns_of(splats) | {"red": np.ones(len(splats)), "label": np.ones(len(splats))}
    names = sorted(set(columns) - {"nx", "ny", "nz"}, reverse=True)
    found = read_ply(write_foreign(tmp_path / "a.ply", {name: columns[name] for name in names}))
    assert_same(splats, found)
    assert found.reading_notes("a.ply") == ["a.ply: did not read label, which may change how splats look"]


def test_other_elements(tmp_path):
    splats = some_splats()
    size = plyfile.PlyElement.describe(np.array([(1,), (2,)], [("size", "u4")]), "image_size")
    path = write_foreign(tmp_path / "a.ply", columns_of(splats), before=[size], after=[])
    assert_same(splats, read_ply(path))


@pytest.mark.parametrize("count", [0, 1, 10_000])
def test_splats_are_counted_by_the_header(tmp_path, monkeypatch, count):
    write_ply(tmp_path / "a.ply", some_splats(count))
    monkeypatch.setattr(plyfile.PlyData, "read", None)
    assert count_splats(tmp_path / "a.ply") == count


def test_no_splats(tmp_path):
    write_ply(tmp_path / "a.ply", some_splats(0))
    assert len(read_ply(tmp_path / "a.ply")) == 0


def test_splats_that_are_not_finite_are_dropped(tmp_path):
    splats = some_splats(10)
    splats.means[1, 2] = np.nan
    splats.shN[4, 3, 1] = np.inf
    splats.logit_opacities[7] = -np.inf
    columns = {name: column.astype(np.float64) for name, column in columns_of(splats).items()}
    columns["scale_1"][9] = 1e300
    back = read_ply(write_foreign(tmp_path / "a.ply", columns, dtype="<f8"))
    assert back.num_dropped == 4
    assert_same(splats.select(np.array([0, 2, 3, 5, 6, 8])), back)


@pytest.mark.parametrize("missing", ["x", "f_dc_1", "opacity", "scale_1", "rot_0", "f_rest_3"])
def test_missing_property(tmp_path, missing):
    columns = columns_of(some_splats())
    del columns[missing]
    with pytest.raises(FormatError, match=rf"{missing}\b|44 f_rest"):
        read_ply(write_foreign(tmp_path / "a.ply", columns))


def test_wrong_number_of_coefficients(tmp_path):
    columns = {name: column for name, column in columns_of(some_splats()).items() if name != "f_rest_44"}
    with pytest.raises(FormatError, match="44 f_rest"):
        read_ply(write_foreign(tmp_path / "a.ply", columns))


def test_degree_4_is_dropped_and_told(tmp_path):
    """gsplat writes 24 coefficients for red, then for green, then for blue."""
    splats = some_splats(10)
    columns = columns_of(splats)
    for name in [name for name in columns if name.startswith("f_rest_")]:
        del columns[name]
    fourth = np.full((10, 9, 3), 7, np.float32)
    rest = np.concatenate([splats.shN, fourth], axis=1).transpose(0, 2, 1).reshape(10, 72)
    columns |= {f"f_rest_{i}": column for i, column in enumerate(rest.T)}
    back = read_ply(write_foreign(tmp_path / "a.ply", columns))
    assert_same(splats, back)
    assert back.reading_notes("a.ply") == [
        "a.ply: dropped spherical harmonics of degree 4: 3 is the highest that is rendered"
    ]


def test_compressed_ply(tmp_path):
    names = ("packed_position", "packed_rotation", "packed_scale", "packed_color")
    columns = dict.fromkeys(names, np.zeros(4))
    with pytest.raises(FormatError, match="compressed"):
        read_ply(write_foreign(tmp_path / "a.ply", columns, dtype="u4"))


def test_unwritable_place(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        write_ply(tmp_path / "file" / "a.ply", some_splats())


@pytest.mark.parametrize(("kind", "white"), [("u1", 255), ("<u2", 65535), ("<f4", 1), ("<f4", 255)])
def test_files_of_nerfstudio_with_colours(tmp_path, kind, white):
    """`ns-export gaussian-splat --ply-color-mode rgb`: bytes instead of f_dc; other programs write other ranges."""
    splats = some_splats(20, degree=0)
    columns = {name: column for name, column in columns_of(splats).items() if not name.startswith("f_dc")}
    rows = np.zeros(20, [*((name, "<f4") for name in columns), *((name, kind) for name in ("red", "green", "blue"))])
    for name, column in columns.items():
        rows[name] = column
    rows["red"], rows["green"], rows["blue"] = white, 0, np.arange(20) * white / 255
    plyfile.PlyData([plyfile.PlyElement.describe(rows, "vertex")]).write(str(tmp_path / "a.ply"))
    found = read_ply(tmp_path / "a.ply")
    colors = 0.5 + SH_C0 * found.sh0
    np.testing.assert_allclose(colors, np.column_stack([np.ones(20), np.zeros(20), np.arange(20) / 255]), atol=1e-6)
    np.testing.assert_array_equal(found.log_scales, splats.log_scales)
    np.testing.assert_allclose(read_point_cloud(tmp_path / "a.ply").colors, np.rint(255 * colors), atol=1)
    of_points = recfunctions.repack_fields(rows[["x", "y", "z", "red", "green", "blue"]])
    plyfile.PlyData([plyfile.PlyElement.describe(of_points, "vertex")]).write(str(tmp_path / "points.ply"))
    np.testing.assert_allclose(read_point_cloud(tmp_path / "points.ply").colors, np.rint(255 * colors), atol=1)


def test_files_of_2d_gaussian_splatting(tmp_path):
    splats = some_splats(20, degree=1)
    columns = columns_of(splats)
    del columns["scale_2"]
    found = read_ply(write_foreign(tmp_path / "a.ply", columns))
    np.testing.assert_array_equal(found.log_scales[:, :2], splats.log_scales[:, :2])
    assert (found.log_scales[:, 2] < found.log_scales[:, :2].min(axis=1) - 6).all()


def test_lists_of_no_faces(tmp_path):
    """MeshLab writes them to every PLY."""
    faces = plyfile.PlyElement.describe(np.zeros(0, [("vertex_indices", "i4", (3,))]), "face")
    splats = some_splats(20, degree=0)
    assert_same(read_ply(write_foreign(tmp_path / "a.ply", columns_of(splats), after=[faces])), splats)


@pytest.mark.parametrize("prefix", ["scalar_", "scal_", "scalar_scal_"])
def test_names_of_cloudcompare(tmp_path, prefix):
    """CloudCompare renames properties that it does not know. Such a file was once mistaken for points."""
    splats = some_splats(5, degree=2)
    columns = {name if name in "xyz" else f"{prefix}{name}": column for name, column in columns_of(splats).items()}
    path = write_foreign(tmp_path / "a.ply", columns)
    assert_same(splats, read_ply(path))
    assert not is_point_cloud(path)


@pytest.mark.parametrize(
    ("comments", "expected"),
    [
        (["Exported from Brush", "SH degree: 3", "SplatRenderMode: mip"], True),
        (["SplatRenderMode: default"], False),
        (["SplatRenderMode: 2dgs"], False),
        (["antialiased 1"], True),
        (["antialiased 0"], False),
        (["antialiased 1", "splatrendermode:  Default"], False),
        ([], False),
    ],
)
def test_other_programs_say_that_splats_are_antialiased(tmp_path, comments, expected):
    """Brush and Postshot write them before the first element."""
    path = write_foreign(tmp_path / "a.ply", columns_of(some_splats(5)), comments=comments)
    assert read_ply(path).antialiased is expected


@pytest.mark.parametrize("antialiased", [False, True])
def test_antialiasing_is_stated_as_brush_does(tmp_path, antialiased):
    splats = some_splats(5)
    splats.antialiased = antialiased
    for name in ("a.ply", "a.compressed.ply"):
        write_splats(tmp_path / name, splats)
        header = (tmp_path / name).read_bytes().partition(b"end_header")[0]
        assert (b"comment SplatRenderMode: mip\n" in header) is antialiased
        assert read_splats(tmp_path / name).antialiased is antialiased
