"""Agisoft Metashape: cameras.xml, as File > Export > Export Cameras writes it.

Cameras look along z with y down. A pixel is (w / 2 + cx + x f + x b1 + y b2, h / 2 + cy + y f), x and y after the
distortion; the tangential coefficients p1 and p2 are in reverse order, compared with OpenCV. Source: Agisoft Metashape
User Manual, appendix "Camera models".
"""

import codecs
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, fromstring

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.io.files import first_bytes, regular
from splat_cli.io.json_input import decimal
from splat_cli.scene.dataset import (
    Dataset,
    Frame,
    Points,
    SceneOptions,
    Unusable,
    not_read,
    sanitize_name,
    usable_frames,
)
from splat_cli.scene.images.locate import ImageIndex, export_image_folder
from splat_cli.scene.lens import Lens
from splat_cli.scene.lens.distortion import Polynomial
from splat_cli.scene.readers.document import pose_matrix, refuse_coefficients, w2c_from_opencv

_HEAD_BYTES = 4096
_ELEMENT_BYTES, _ATTRIBUTE_BYTES, _MAX_BASE_BYTES = 320, 256, 56 << 20
"""Upper bounds of ElementTree's memory for an element and for an attribute; limit for text and elements together, in
addition to four times the file's length. A camera takes twice its length.
"""
_MAX_SIDE = 1 << 18
_Camera = tuple[Element, Element | None, np.ndarray | None]
"""A camera, its sensor, and the transform from its component to the world."""
_FRAME, _FISHEYE = ("frame",), ("fisheye", "equidistant_fisheye")
_NO = ("false", "0")
_NAMES = ("f", "cx", "cy", "b1", "b2", "k1", "k2", "k3", "k4", "p1", "p2")


def find_metashape(root: Path) -> Path | None:
    """The first .xml file in `root` that is a Metashape document."""
    return next(_documents(root), None)


def _documents(root: Path) -> Iterator[Path]:
    for path in filter(Path.is_file, sorted(root.glob("*.xml"))):
        head = _text(first_bytes(path, _HEAD_BYTES), "ignore")
        if "<document" in head and "<chunk" in head:
            yield path


def _text(content: bytes, errors: str = "strict") -> str:
    """The characters of UTF-16, with or without a mark; of other encodings, of which ASCII is a part, one per byte."""
    marks = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16", b"<\0": "utf-16-le", b"\0<": "utf-16-be"}
    return content.decode(marks.get(content[:2], "latin-1"), errors)


def read_metashape(root: Path, options: SceneOptions) -> Dataset:
    """The aligned cameras of all chunks, in the coordinates of the export. Raises SceneError."""
    path = find_metashape(root)
    if path is None:
        raise SceneError(f"{root} has no cameras.xml of Metashape: File > Export > Export Cameras writes it")
    images = ImageIndex(export_image_folder(root, options))
    aligned: list[tuple[str, _Camera]] = []
    num_cameras, placed = 0, []
    for chunk in _document(path).iter("chunk"):
        if chunk.get("enabled") in _NO:
            continue
        sensors = {sensor.get("id"): sensor for sensor in chunk.iter("sensor")}
        if len(sensors) < sum(1 for _ in chunk.iter("sensor")):
            raise SceneError(f"{path} has two sensors with one id: export the cameras again")
        worlds, default = _worlds(chunk, path), _world(chunk.find("transform"), path)
        first = len(aligned)
        for camera in chunk.iter("camera"):
            num_cameras += 1
            has_master = camera.get("master_id") not in (None, camera.get("id"))
            if camera.get("enabled") in _NO or (camera.find("transform") is None and not has_master):
                continue
            sensor, world = sensors.get(camera.get("sensor_id")), worlds.get(camera.get("component_id"), default)
            aligned.append((camera.get("label", ""), (camera, sensor, world)))
        if len(aligned) > first:
            places = (chunk.find("transform"), chunk.find(".//component/transform"))
            placed.append(any(place is not None for place in places))
    if len(placed) > 1 and not all(placed):
        raise SceneError(f"{path} has {len(placed)} chunks, each with its own coordinates: align and merge them")
    num_unaligned = num_cameras - len(aligned)
    if num_unaligned == num_cameras:
        raise SceneError(f"{path} has {num_cameras} cameras, and none is aligned and enabled: align them, export again")
    others = not_read([other.name for other in _documents(root)][1:])
    frames, skipped = usable_frames(aligned, partial(_frame, images))
    without = f", without {num_unaligned} that are not aligned or disabled" if num_unaligned else ""
    return Dataset(f"Metashape's cameras in {path}{without}{others}", images.folder, frames, Points(), skipped)


def _document(path: Path) -> Element:
    """The root element. SceneError if it is not XML, or could grow without bound."""
    try:
        content = regular(path).read_bytes()
        _refuse_growth(path, content)
        return fromstring(content)
    except OSError as error:
        raise SceneError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ParseError, ValueError, LookupError, RecursionError) as error:
        raise SceneError(f"{path} is not a readable XML file ({error}): export the cameras again") from error


def _refuse_growth(path: Path, content: bytes) -> None:
    """SceneError for XML that declares entities, or takes much more memory than it has bytes."""
    text = _text(content)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise SceneError(f"{path} declares a document type, which Metashape does not: export the cameras again")
    num_elements = text.count("<") - text.count("</")
    estimate = 2 * len(content) + _ELEMENT_BYTES * num_elements + _ATTRIBUTE_BYTES * text.count("=")
    if estimate > _MAX_BASE_BYTES + 4 * len(content):
        raise SceneError(f"{path} holds {num_elements:,} elements, more than are read from {len(content):,} bytes")


def _worlds(chunk: Element, path: Path) -> dict[str | None, np.ndarray | None]:
    """Transforms to the world by component. None for a component that has no common coordinates with the active one.

    Components, parts whose alignments are not connected, have transforms only where the chunk is georeferenced.
    """
    components = list(chunk.iter("component"))
    active = next((group.get("active_id") for group in chunk.iter("components")), None)
    is_common = len(components) == 1 or all(part.find("transform") is not None for part in components)
    return {
        part.get("id"): _world(part.find("transform"), path) if is_common or part.get("id") == active else None
        for part in components
    }


def _frame(images: ImageIndex, label: str, entry: _Camera) -> Frame:
    camera, sensor, world = entry
    if world is None:
        raise Unusable("it is in another component than the active one, whose coordinates differ: merge them")
    if camera.find("transform") is None:
        raise Unusable("it has no pose except that of its master in a multi-camera system: align it on its own")
    file = images.find_label(label)
    if sensor is None:
        raise Unusable("its sensor is not in the file")
    c2w = world @ pose_matrix(_numbers(_only(camera, "transform")))
    return Frame(sanitize_name(file), file, _lens(sensor), w2c_from_opencv(c2w))


def _world(transform: Element | None, path: Path) -> np.ndarray:
    """float64 [4, 4] from a chunk's or component's coordinates to the world's: scale, rotation, shift."""
    world = np.eye(4)
    if transform is None:
        return world
    try:
        rotation = np.array(_numbers(_only(transform, "rotation")) or np.eye(3).ravel()).reshape(3, 3)
        shift = np.array(_numbers(_only(transform, "translation")) or (0.0, 0.0, 0.0)).reshape(3)
        scale = _number(_only(transform, "scale") or "1")
    except (Unusable, ValueError):
        raise SceneError(f"{path}: a transform is not a rotation, shift and scale: export the cameras again") from None
    if not scale > 0:
        raise SceneError(f"{path}: a transform has the scale {scale}; it must be positive: export the cameras again")
    world[:3, :3], world[:3, 3] = scale * rotation, shift
    return world


def _lens(sensor: Element) -> Lens:
    """The lens of the adjusted calibration. Unusable for spherical and other cameras without a pinhole image."""
    calibrations = sensor.findall("calibration")
    if not calibrations:
        raise Unusable(f"its sensor, of type {sensor.get('type', 'unknown')!a}, has no calibration")
    adjusted = [one for one in calibrations if one.get("class") == "adjusted"]
    if len(adjusted) > 1:
        raise Unusable("its sensor has two adjusted calibrations: export the cameras again")
    calibration = adjusted[0] if adjusted else calibrations[0]
    kind = calibration.get("type") or sensor.get("type") or "frame"
    if kind not in _FRAME + _FISHEYE:
        raise Unusable(f"its sensor is of type {kind!a}; expected frame or fisheye")
    resolution = calibration.find("resolution")
    size = sensor.find("resolution") if resolution is None else resolution
    width, height = (_number(size.get(side)) if size is not None else 0.0 for side in ("width", "height"))
    if calibration.find("fx") is not None:
        raise Unusable("its calibration has fx and fy, as PhotoScan wrote it: export the cameras with Metashape")
    names = dict.fromkeys(part.tag for part in calibration if len(part.tag) <= 2)  # not date, resolution
    given = {name: _number(_only(calibration, name)) for name in names}
    refuse_coefficients(given, _NAMES)
    value = {**dict.fromkeys(_NAMES, 0.0), **given}
    focal = value["f"]
    is_size = all(1 <= side <= _MAX_SIDE and side.is_integer() for side in (width, height))
    if not (is_size and focal > 0 and focal + value["b1"] > 0):
        raise Unusable(f"its sensor has the size {width:g}x{height:g} and the focal length {focal:g}")
    distortion = Polynomial(
        radial=tuple(value[name] for name in ("k1", "k2", "k3", "k4")),
        tangential=(value["p2"], value["p1"]),
        skew=value["b2"] / (focal + value["b1"]),
        fisheye=kind in _FISHEYE,
    )
    return Lens(
        int(width),
        int(height),
        focal + value["b1"],
        focal,
        width / 2 + value["cx"],
        height / 2 + value["cy"],
        distortion.or_none(),
    )


def _only(parent: Element, tag: str) -> str | None:
    """Text of an element below `parent`, None if there is none. Unusable for several: each program takes another."""
    found = parent.findall(tag)
    if len(found) > 1:
        raise Unusable(f"its file has two elements <{tag}> in one: export the cameras again")
    return found[0].text if found else None


def _number(text: str | None) -> float:
    """0 for None. Unusable for anything except a finite number."""
    numbers = _numbers(text)
    if len(numbers) > 1:
        raise Unusable(f"{text!a} is not a number")
    return numbers[0] if numbers else 0.0


def _numbers(text: str | None) -> list[float]:
    """Finite numbers between spaces. Unusable for anything else."""
    try:
        return [decimal(word) for word in (text or "").split()]
    except ValueError as error:
        raise Unusable(str(error)) from None
