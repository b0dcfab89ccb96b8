"""Builders of large files that take as much memory to read as their format allows, and the readers to measure."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from splat_cli.field.file import read_field
from splat_cli.gaussians.formats import read_splats
from splat_cli.report.run_data import read_run_data
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene import read_scene
from splat_cli.scene.cameras_json import read_cameras
from splat_cli.scene.colmap.binary import POINT
from splat_cli.scene.split import read_split
from splat_cli.scene.trajectories.camera_path import read_path
from tests.fuzz.large_splats import Builder, build_sog, build_splats, build_spz, build_spz_zstd
from tests.scene.models import small_model, write_scene
from tests.scene.transforms_files import write_transforms
from tests.views import ring_of_views

_PROPERTIES = (
    *("x", "y", "z", "opacity", *(f"f_dc_{i}" for i in range(3)), *(f"f_rest_{i}" for i in range(45))),
    *(f"scale_{i}" for i in range(3)),
    *(f"rot_{i}" for i in range(4)),
)
_TYPE_BYTES = {"double": 8, "float": 4, "uchar": 1}


@dataclass(frozen=True)
class LargeFile:
    """build: writes a file of about a given number of bytes into a folder; returns the argument of `read`.

    expansion: bytes of the arrays of the file's points per byte of the file.
    """

    name: str
    build: Builder
    read: Callable[[Path], object]
    expansion: float = 1.0


def _ply(kind: str, is_text: bool, names: tuple[str, ...] = _PROPERTIES) -> Builder:
    def build(folder: Path, size: int) -> Path:
        row = b"0 " * (len(names) - 1) + b"0\n" if is_text else bytes(_TYPE_BYTES[kind] * len(names))
        count = size // len(row)
        head = f"ply\nformat {'ascii' if is_text else 'binary_little_endian'} 1.0\nelement vertex {count}\n"
        head += "".join(f"property {kind} {name}\n" for name in names) + "end_header\n"
        (folder / "a.ply").write_bytes(head.encode() + count * row)
        return folder / "a.ply"

    return build


def _cloud(kind: str, is_text: bool) -> Builder:
    def build(folder: Path, size: int) -> Path:
        write_transforms(folder, ring_of_views(3), ply_file_path="a.ply")
        return _ply(kind, is_text, ("x", "y", "z"))(folder, size).parent

    return build


def _colmap(file: str, line: Callable[[int], str], first: str = "") -> Builder:
    """A model in text; one of its files consists of the given lines, by number."""

    def build(folder: Path, size: int) -> Path:
        write_scene(folder, small_model(("a.png", "b.png")), binary=False)
        path = folder / "sparse" / "0" / file
        head = (path.read_text() if file != "points3D.txt" else "") + first
        path.write_text(head + "".join(map(line, range(size // len(line(1000))))))
        return folder

    return build


def _colmap_binary(file: str, record: bytes) -> Builder:
    def build(folder: Path, size: int) -> Path:
        write_scene(folder, small_model(("a.png", "b.png")))
        count = size // len(record)
        (folder / "sparse" / "0" / file).write_bytes(struct.pack("<Q", count) + count * record)
        return folder

    return build


def _repeated(file: str, begin: str, middle: str, end: str = "", is_scene: bool = False) -> Builder:
    """A file that repeats one piece, in the folder of a run or a scene."""

    def build(folder: Path, size: int) -> Path:
        (folder / "config.toml").write_text("steps = 9\n")
        (folder / file).write_text(begin + middle * (size // len(middle)) + end, encoding="utf-8")
        return folder if is_scene else folder / file

    return build


def _frames(name: str, middle: str, begin: str = "") -> LargeFile:
    begin = '{"w":40,"h":30,"fl_x":30,"frames":[' + begin
    return LargeFile(name, _repeated("transforms.json", begin, middle, "0]}", is_scene=True), read_scene)


def zip_of_members(size: int) -> bytes:
    """A zip archive of about a given number of bytes: a directory of equal names without members."""
    count = size // 47
    member = b"PK\1\2" + bytes(24) + struct.pack("<HHHHHII", 1, 0, 0, 0, 0, 0, 0) + b"a"
    return member * count + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 65535, 65535, 47 * count, 0, 0)


def _zip_members(file: str) -> Builder:

    def build(folder: Path, size: int) -> Path:
        (folder / "images").mkdir()
        (folder / file).write_bytes(zip_of_members(size))
        return folder if file.endswith(".zip") else folder / file

    return build


def _field_header(folder: Path, size: int) -> Path:
    header = np.frombuffer(b"{" + b'"a":{},' * (size // 7) + b'"b":0}', np.uint8)
    with (folder / "field.npz").open("wb") as file:
        np.savez(file, header=header)
    return folder / "field.npz"


def _export(file: str, begin: str, middle: str, end: str = "") -> Builder:
    """An export of another program with a photograph."""

    def build(folder: Path, size: int) -> Path:
        Image.new("RGB", (40, 30)).save(folder / "a.png")
        (folder / "list.txt").write_text("a.png\n")
        return _repeated(file, begin, middle, end, is_scene=True)(folder, size)

    return build


def _read_run(path: Path) -> object:
    return read_run_data(RunDir(path.parent))


_CAMERA = '{"img_name":"a","width":1,"height":1,"fx":1,"fy":1,"position":[1,1,1],"rotation":[[1,0,0],[0,1,0],[0,0,1]]}'
_FRAME = '{"file_path":"a.png","transform_matrix":[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]},'
_STEP = '{"fov":9,"camera_to_world":[1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1]}'
_MANY = '{"steps":{"7":{"psnr":1,"ssim":1,"per_image":{'
_IMAGE = struct.pack("<I7dI", 1, 1, 0, 0, 0, 0, 0, 0, 1) + b"a\0" + struct.pack("<Q", 0)
_POINT = np.zeros(1, POINT).tobytes()
LARGE_FILES = [
    LargeFile("spz", build_spz, read_splats),
    LargeFile("spz, zstd", build_spz_zstd, read_splats),
    LargeFile("sog", build_sog, read_splats),
    LargeFile("glb", build_splats(".glb", 236), read_splats),
    LargeFile("compressed.ply", build_splats(".compressed.ply", 62), read_splats),
    LargeFile("ply, float", _ply("float", is_text=False), read_splats),
    LargeFile("ply, double", _ply("double", is_text=False), read_splats),
    LargeFile("ply, uchar", _ply("uchar", is_text=False), read_splats),
    LargeFile("ply, text", _ply("double", is_text=True), read_splats),
    LargeFile("points.ply, uchar", _cloud("uchar", is_text=False), read_scene, 15 / 3),
    LargeFile("points.ply, double", _cloud("double", is_text=False), read_scene),
    LargeFile("points.ply, text", _cloud("double", is_text=True), read_scene, 27 / 6),
    LargeFile("cameras.txt", _colmap("cameras.txt", lambda i: f"{i} FOV 9 9 1 1 1 1 1\n"), read_scene),
    LargeFile("cameras.txt, one line", _colmap("cameras.txt", lambda _: " 10", "1 FOV 9 9"), read_scene),
    LargeFile("images.txt", _colmap("images.txt", lambda i: f"1 1 0 0 0 0 0 0 1 {i}\n\n"), read_scene),
    LargeFile("images.txt, one line", _colmap("images.txt", lambda _: " 10", "9 1 0 0 0 0 0 0 1 a\n"), read_scene),
    LargeFile("points3D.txt", _colmap("points3D.txt", lambda i: f"1 {i} 0 0 0 0 0 0\n"), read_scene),
    LargeFile("points3D.txt, one line", _colmap("points3D.txt", lambda _: " 10", "1 1 0 0 0 0 0 0"), read_scene),
    LargeFile("images.bin", _colmap_binary("images.bin", _IMAGE), read_scene),
    LargeFile("points3D.bin", _colmap_binary("points3D.bin", _POINT), read_scene),
    _frames("transforms.json", _FRAME),
    _frames("transforms.json, lists", "[],"),
    _frames("transforms.json, objects", "{},"),
    _frames("transforms.json, numbers", "0.1,"),
    _frames("transforms.json, texts", '"ab",'),
    _frames("transforms.json, wide text", "a", '"\U0001f700'),
    LargeFile("cameras.json", _repeated("cameras.json", "[", _CAMERA + ",", _CAMERA + "]"), read_cameras),
    LargeFile("path.json", _repeated("path.json", '{"camera_path":[', _STEP + ",", "0]}"), read_path),
    LargeFile("split.json", _repeated("split.json", '{"test":[', '"",', '"a"]}'), read_split),
    LargeFile("split.txt", _repeated("split.txt", "", "ab\n"), read_split),
    LargeFile("metrics.json", _repeated("metrics.json", _MANY, '"a":{"psnr":1,"ssim":1},', '"":0}}}}'), _read_run),
    LargeFile("train.jsonl", _repeated("train.jsonl", "", '{"step":1}\n'), _read_run),
    LargeFile("train.jsonl, empty lines", _repeated("train.jsonl", "", "\n"), _read_run),
    LargeFile("train.jsonl, one line", _repeated("train.jsonl", "[", "[],"), _read_run),
    LargeFile("cameras.xml", _export("a.xml", "<document><chunk>", '<a b=""/>', "</chunk></document>"), read_scene),
    LargeFile("registration.csv", _export("a.csv", "#name,x,y,alt,heading,pitch,roll,f\n", "a\n"), read_scene),
    LargeFile("bundle.out", _export("bundle.out", "# Bundle file v0.3\n", "1 "), read_scene, 8 / 2),
    LargeFile("field.npz, header", _field_header, read_field),
    LargeFile("model.zip, members", _zip_members("model.zip"), read_scene),
    LargeFile("sog, members", _zip_members("a.sog"), read_splats),
    LargeFile("field.npz, members", _zip_members("field.npz"), read_field),
]
