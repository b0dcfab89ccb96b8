"""COLMAP's binary files: cameras.bin, images.bin, points3D.bin (little endian), memory-mapped; writing of models."""

import mmap
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.io.files import regular
from splat_cli.scene.colmap.model import CAMERA_MODELS, MAX_PARAMETERS, MODEL_IDS, Camera, Image, Model, add_camera
from splat_cli.scene.dataset import check_count

_COUNT = struct.Struct("<Q")
CAMERA = struct.Struct("<IiQQ")  # id, model id, width, height; then the parameters
IMAGE = struct.Struct("<I7dI")  # id, quaternion, translation, camera id; then the name and its 2D points
_OBSERVATION = np.dtype([("xy", "<f8", 2), ("point_id", "<u8")])
OBSERVATION_BYTES = _OBSERVATION.itemsize
_NO_POINT = np.uint64(2**64 - 1)
POINT = np.dtype([("id", "<u8"), ("xyz", "<f8", 3), ("rgb", "u1", 3), ("error", "<f8"), ("track_length", "<u8")])
TRACK_BYTES = 8  # image id, number of the observation
_TRACK_LENGTH = struct.Struct("<Q")


class Cursor:
    """A position in a memory-mapped file; methods advance it or raise SceneError with the file's name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pos = 0
        try:
            with regular(path).open("rb") as file:
                empty = path.stat().st_size == 0  # mmap rejects empty files
                self.data: bytes | mmap.mmap = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise SceneError(f"{path} cannot be read: {error.strerror or error}") from error

    def truncated(self, what: str) -> SceneError:
        return SceneError(
            f"{self.path} ends in the middle of {what} ({len(self.data)} bytes): it is truncated or damaged; "
            "copy or export the model again"
        )

    def end(self, count: int, what: str) -> None:
        """SceneError if bytes are left: the file has more items than the `count` that it declares."""
        if left := len(self.data) - self.pos:
            raise SceneError(
                f"{self.path} declares {count} {what}, but {left} bytes follow the last one: it is damaged; copy or "
                "export the model again"
            )

    def take(self, layout: struct.Struct, what: str) -> tuple:
        """The next values."""
        if self.pos + layout.size > len(self.data):
            raise self.truncated(what)
        values = layout.unpack_from(self.data, self.pos)
        self.pos += layout.size
        return values

    def take_count(self, what: str, min_bytes: int) -> int:
        """The next 64-bit count of items of at least `min_bytes` each, which must fit into the rest of the file."""
        (count,) = self.take(_COUNT, f"the number of {what}")
        room = (len(self.data) - self.pos) // min_bytes
        if count > room:
            raise SceneError(
                f"{self.path} declares {count} {what} but has room for at most {room}: it is truncated or damaged; "
                "copy or export the model again"
            )
        return count

    def take_string(self, what: str) -> str:
        """The next bytes up to a zero byte, as UTF-8; invalid bytes become surrogates, as in file names."""
        end = self.data.find(b"\0", self.pos)
        if end < 0:
            raise self.truncated(what)
        raw = bytes(self.data[self.pos : end])
        self.pos = end + 1
        return raw.decode("utf-8", "surrogateescape")

    def skip(self, num_bytes: int) -> None:
        """Advance over bytes whose presence was checked."""
        self.pos += num_bytes


class _UnknownModelError(SceneError):
    def __init__(self, path: Path, model_id: int) -> None:
        super().__init__(
            f"{path} has cameras of the unknown model number {model_id}, whose length is not known; "
            "undistort the images to PINHOLE cameras, or export the model again if the file is damaged"
        )
        self.model_id = model_id


def read_cameras(path: Path) -> dict[int, Camera]:
    """Cameras by id. SceneError if the file is damaged.

    Cameras of one unknown model are read, too: their number of parameters follows from the file's length.
    """
    try:
        return _read_cameras(path, CAMERA_MODELS)
    except _UnknownModelError as error:
        for num_params in range(1, MAX_PARAMETERS + 1):
            with suppress(SceneError):
                unknown = {error.model_id: (f"number {error.model_id}", num_params)}
                return _read_cameras(path, CAMERA_MODELS | unknown, to_end=True)
        raise


def _read_cameras(path: Path, models: Mapping[int, tuple[str, int]], to_end: bool = False) -> dict[int, Camera]:
    cursor = Cursor(path)
    cameras: dict[int, Camera] = {}
    for _ in range(cursor.take_count("cameras", CAMERA.size)):
        check_count(path, "cameras", len(cameras) + 1)
        camera_id, model_id, width, height = cursor.take(CAMERA, "a camera")
        if model_id not in models:
            raise _UnknownModelError(path, model_id)
        name, num_params = models[model_id]
        params = cursor.take(struct.Struct(f"<{num_params}d"), "a camera")
        add_camera(cameras, Camera(camera_id, name, width, height, params), path)
    if to_end and cursor.pos < len(cursor.data):
        raise cursor.truncated("a camera")
    return cameras


def num_images(path: Path) -> int:
    """Number of images by the header of the file; 0 if it is damaged."""
    try:
        return Cursor(path).take_count("images", IMAGE.size + 9)
    except SceneError:
        return 0


def read_images(path: Path) -> list[Image]:
    """Poses; 2D points are skipped. SceneError if the file is damaged."""
    return [image for image, _ in _images(path)]


def read_visible_points(path: Path) -> dict[str, np.ndarray]:
    """Name of an image -> ids of the points that it shows, uint64 [n]. SceneError if the file is damaged."""
    found = {}
    for image, observations in _images(path):
        ids = np.frombuffer(observations, _OBSERVATION)["point_id"]
        found[image.name] = ids[ids != _NO_POINT]
    return found


def _images(path: Path) -> Iterator[tuple[Image, memoryview]]:
    """Images with the bytes of their 2D points."""
    cursor = Cursor(path)
    data = memoryview(cursor.data)
    num = cursor.take_count("images", IMAGE.size + 9)
    for number in range(1, num + 1):
        image_id, *pose, camera_id = cursor.take(IMAGE, "an image")
        name = cursor.take_string("an image's name")
        size = OBSERVATION_BYTES * cursor.take_count(f"2D points of image {image_id}", OBSERVATION_BYTES)
        check_count(path, "images", number)
        yield Image(image_id, camera_id, name, tuple(pose[:4]), tuple(pose[4:])), data[cursor.pos : cursor.pos + size]
        cursor.skip(size)
    cursor.end(num, "images")


def read_points(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Points float64 [P, 3], colours uint8 [P, 3], errors float64 [P] and track lengths int64 [P].

    Tracks are skipped. SceneError if the file is damaged.
    """
    cursor = Cursor(path)
    num_points = cursor.take_count("points", POINT.itemsize)
    if num_points == 0:
        return np.zeros((0, 3)), np.zeros((0, 3), np.uint8), np.zeros(0), np.zeros(0, np.int64)
    starts = _point_starts(cursor, num_points)
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(cursor.data, np.uint8), POINT.itemsize)
    points = windows[starts].view(POINT)[:, 0]
    positions, colors = points["xyz"].astype(np.float64), np.ascontiguousarray(points["rgb"])
    return positions, colors, points["error"].astype(np.float64), points["track_length"].astype(np.int64)


def _point_starts(cursor: Cursor, num_points: int) -> np.ndarray:
    """Offset of each point, found sequentially, because the length of a point depends on its track.

    At once if the file has no tracks, as those of cells, with hundreds of thousands of points.
    """
    data, pos, size = cursor.data, cursor.pos, len(cursor.data)
    if size - pos == num_points * POINT.itemsize and not np.frombuffer(data, POINT, offset=pos)["track_length"].any():
        return np.arange(pos, size, POINT.itemsize)
    track_length_of, to_length = _TRACK_LENGTH.unpack_from, POINT.fields["track_length"][1]  # type: ignore[index]
    starts = np.empty(num_points, np.int64)
    for i in range(num_points):
        if pos + POINT.itemsize > size:
            raise cursor.truncated(f"point {i + 1} of {num_points}")
        starts[i] = pos
        pos += POINT.itemsize + TRACK_BYTES * track_length_of(data, pos + to_length)[0]
    if pos > size:
        raise cursor.truncated(f"the track of point {num_points}")
    cursor.pos = pos
    cursor.end(num_points, "points")
    return starts


def write_model(folder: Path, model: Model, binary: bool = True) -> None:
    """Write cameras, images and points3D into `folder`, which is created if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = _binary(model) if binary else _text(model)
    for stem, content in contents.items():
        (folder / f"{stem}{'.bin' if binary else '.txt'}").write_bytes(content)


def _binary(model: Model) -> dict[str, bytes]:
    cameras = [
        CAMERA.pack(camera.id, MODEL_IDS[camera.model], camera.width, camera.height)
        + struct.pack(f"<{len(camera.params)}d", *camera.params)
        for camera in model.cameras.values()
    ]
    images = [
        IMAGE.pack(image.id, *image.quat, *image.translation, image.camera_id) + _name(image) + b"\0" + _COUNT.pack(0)
        for image in model.images
    ]
    points = np.zeros(len(model.points), POINT)
    points["id"] = np.arange(1, len(points) + 1)
    points["xyz"], points["rgb"] = model.points, model.colors
    return {
        "cameras": _COUNT.pack(len(cameras)) + b"".join(cameras),
        "images": _COUNT.pack(len(images)) + b"".join(images),
        "points3D": _COUNT.pack(len(points)) + points.tobytes(),
    }


def _text(model: Model) -> dict[str, bytes]:
    cameras = [
        " ".join(map(str, (camera.id, camera.model, camera.width, camera.height, *map(float, camera.params))))
        for camera in model.cameras.values()
    ]
    images = [
        " ".join(map(str, (image.id, *image.quat, *image.translation, image.camera_id))).encode()
        + b" "
        + _name(image)
        + b"\n"
        for image in model.images
    ]
    points = [
        " ".join(map(str, (number, *point, *color, 0)))
        for number, (point, color) in enumerate(zip(model.points.tolist(), model.colors.tolist(), strict=True), 1)
    ]
    return {
        "cameras": _block("# CAMERA_ID MODEL WIDTH HEIGHT PARAMS[]", cameras),
        "images": b"# IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME, then a line of POINTS2D[]\n"
        + b"".join(image + b"\n" for image in images),
        "points3D": _block("# POINT3D_ID X Y Z R G B ERROR TRACK[]", points),
    }


def _block(title: str, lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in (title, *lines)).encode()


def _name(image: Image) -> bytes:
    return image.name.encode("utf-8", "surrogateescape")
