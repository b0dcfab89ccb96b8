"""Exports of photogrammetry programs and phone apps, written from views by the formulas of their documentation."""

import json

import numpy as np

from splat_cli.scene.quaternion import quat_from_matrix, rotation_from_vector, vector_from_rotation
from tests.scene.transforms_files import OPENGL, write_photographs

ROTATION = rotation_from_vector(np.array([0.3, -0.5, 0.2]))
SCALE, SHIFT = 2.5, np.array([10.0, -20.0, 3.0])
BROWN = {"k1": 0.03, "k2": -0.02, "k3": 0.01, "k4": -0.005}


def opengl_c2w(view):
    """Camera to world for cameras that look along -z with y up, as in ARKit."""
    return np.linalg.inv(view.w2c) @ OPENGL


def write_metashape(folder, views, kind="frame", shift=SHIFT, calibration=None):
    """cameras.xml with a chunk that is moved, rotated and scaled relative to the world."""
    write_photographs(folder, views)
    first = views[0]
    values = {
        "f": first.fy,
        "cx": first.cx - first.width / 2,
        "cy": first.cy - first.height / 2,
        "b1": first.fx - first.fy,
        "b2": -0.8,
        **BROWN,
        "p1": 0.002,
        "p2": -0.003,
    }
    values |= calibration or {}
    size = f'<resolution width="{first.width}" height="{first.height}"/>'
    tags = "".join(f"<{name}>{value!r}</{name}>" for name, value in values.items())
    cameras = [
        f'<camera id="{number}" sensor_id="0" component_id="0" label="{view.name.removesuffix(".jpg")}">'
        f"<transform>{_words(_in_chunk(view, shift))}</transform></camera>"
        for number, view in enumerate(views)
    ]
    (folder / "cameras.xml").write_text(
        f"""<?xml version="1.0" encoding="UTF-8"?>
<document version="2.0.0"><chunk label="Chunk 1" enabled="true"><sensors next_id="1">
<sensor id="0" label="unknown" type="{kind}">{size}
<calibration type="{kind}" class="initial">{size}<f>1</f></calibration>
<calibration type="{kind}" class="adjusted">{size if kind == "frame" else ""}{tags}</calibration></sensor></sensors>
<components next_id="1"><component id="0"><transform><rotation>{_words(ROTATION)}</rotation>
<translation>{_words(shift)}</translation><scale>{SCALE!r}</scale></transform></component></components>
<cameras next_id="9"><group label="g">{"".join(cameras)}</group>
<camera id="99" sensor_id="0" label="not_aligned"/></cameras></chunk></document>"""
    )
    return values


def _in_chunk(view, shift):
    c2w = np.linalg.inv(view.w2c)
    c2w[:3, :3] = ROTATION.T @ c2w[:3, :3]
    c2w[:3, 3] = ROTATION.T @ (c2w[:3, 3] - shift) / SCALE
    return c2w


def _words(values):
    return " ".join(repr(float(value)) for value in np.ravel(values))


def metashape_pixels(view, points, values, fisheye=False):
    """Pixels float64 [P, 2] of points [P, 3] by the formulas of Metashape's manual."""
    x, y = _on_plane(view, points)
    if fisheye:
        radius = np.hypot(x, y)
        x, y = x * np.arctan(radius) / radius, y * np.arctan(radius) / radius
    r2 = x * x + y * y
    radial = 1 + sum(values[f"k{n}"] * r2**n for n in (1, 2, 3, 4))
    p1, p2 = values["p1"], values["p2"]
    bent_x = x * radial + p1 * (r2 + 2 * x * x) + 2 * p2 * x * y
    bent_y = y * radial + p2 * (r2 + 2 * y * y) + 2 * p1 * x * y
    u = view.width / 2 + values["cx"] + bent_x * values["f"] + bent_x * values["b1"] + bent_y * values["b2"]
    return np.stack([u, view.height / 2 + values["cy"] + bent_y * values["f"]], axis=-1)


def _on_plane(view, points):
    placed = points @ view.w2c[:3, :3].T + view.w2c[:3, 3]
    return placed[:, 0] / placed[:, 2], placed[:, 1] / placed[:, 2]


def write_realityscan(folder, views, shift=(0, 0, 0), **values):
    """A registration as .csv of photographs with the distortion `values`, by default undistorted."""
    write_photographs(folder, views)
    columns = "#name,x,y,alt,heading,pitch,roll,f,px,py,k1,k2,k3,k4,t1,t2"
    lines = [f"#cameras {len(views)}", columns]
    for view in views:
        rotation, longer = opengl_c2w(view)[:3, :3], max(view.width, view.height)
        pitch = np.arcsin(rotation[2, 1])  # Rz(-heading) Rx(pitch) Ry(roll)
        heading = -np.arctan2(-rotation[0, 1], rotation[1, 1])
        roll = np.arctan2(-rotation[2, 0], rotation[2, 2])
        center = [(view.cx - view.width / 2) / longer, (view.cy - view.height / 2) / longer]
        numbers = [*(view.center + shift), *np.degrees([heading, pitch, roll]), 36 * view.fx / longer, *center]
        numbers += [values.get(name, 0.0) for name in columns.split(",")[10:]]
        lines.append(",".join([view.name, *(repr(float(number)) for number in numbers)]))
    (folder / "registration.csv").write_text("\n".join(lines) + "\n")


def write_bundler(folder, views, points, colors, k1=0.0, k2=0.0):
    write_photographs(folder, views)
    lines = ["# Bundle file v0.3", f"{len(views) + 1} {len(points)}"]
    for view in views:
        w2c = OPENGL @ view.w2c
        lines += [f"{view.fx!r} {k1} {k2}", *(_words(row) for row in w2c[:3, :3]), _words(w2c[:3, 3])]
    lines += ["0 0 0", *["0 0 0"] * 4]
    for point, color in zip(points, colors, strict=True):
        lines += [_words(point), " ".join(map(str, color)), "2 0 0 1.0 2.0 1 0 3.0 4.0"]
    (folder / "bundle.out").write_text("\n".join(lines) + "\n")
    names = [f"images/{view.name} 0 {view.fx}" for view in views] + ["images/missing.jpg"]
    (folder / "list.txt").write_text("\n".join(names) + "\n")


def write_opensfm(folder, views, points, colors, model="brown", **values):
    """An OpenDroneMap project: numbers are shares of the longer side, the size is half the photograph's."""
    write_photographs(folder, views)
    first, cameras, shots = views[0], {}, {}
    longer = max(first.width, first.height)
    camera = {"projection_type": model, "width": first.width // 2, "height": first.height // 2}
    camera |= {"focal_x": first.fx / longer, "focal_y": first.fy / longer, **values}
    camera |= {"c_x": (first.cx - first.width / 2) / longer, "c_y": (first.cy - first.height / 2) / longer}
    cameras["v2 make model 40 30 brown 0.85"] = camera
    for view in views:
        rotation = vector_from_rotation(view.w2c[:3, :3]).tolist()
        shots[view.name] = {
            "rotation": rotation,
            "translation": view.w2c[:3, 3].tolist(),
            "camera": next(iter(cameras)),
        }
    cloud = {
        str(number): {"color": [float(c) for c in color], "coordinates": point.tolist()}
        for number, (point, color) in enumerate(zip(points, colors, strict=True))
    }
    (folder / "opensfm").mkdir()
    (folder / "opensfm" / "reconstruction.json").write_text(
        json.dumps([{"cameras": cameras, "shots": shots, "points": cloud}, {"cameras": {}, "shots": {}, "points": {}}])
    )


def write_polycam(folder, views):
    write_photographs(folder / "keyframes", views)
    cameras = folder / "keyframes" / "cameras"
    cameras.mkdir()
    for view in views:
        c2w = opengl_c2w(view)
        values = {f"t_{row}{column}": c2w[row, column] for row in range(3) for column in range(4)}
        values |= {"fx": view.fx, "fy": view.fy, "cx": view.cx, "cy": view.cy, "blur_score": 90.0}
        values |= {"width": view.width, "height": view.height, "timestamp": 1}
        (cameras / view.name.replace(".jpg", ".json")).write_text(json.dumps(values))


def write_scanner_app(folder, views):
    write_photographs(folder, views)
    for number, view in enumerate(views):
        (folder / "images" / view.name).rename(folder / f"frame_{number:05}.jpg")
        intrinsics = [view.fx, 0, view.cx, 0, view.fy, view.cy, 0, 0, 1]
        values = {"cameraPoseARFrame": opengl_c2w(view).ravel().tolist(), "intrinsics": intrinsics}
        (folder / f"frame_{number:05}.json").write_text(json.dumps(values))
    (folder / "images").rmdir()
    (folder / "frame_99999.json").write_text(json.dumps(values))  # has a depth map but no photograph


def write_record3d(folder, views, per_frame=False):
    """metadata.json and rgb/0.jpg, 1.jpg, ...; K is stored column by column, quaternions are x y z w."""
    write_photographs(folder, views)
    (folder / "images").rename(folder / "rgb")
    poses = []
    for number, view in enumerate(views):
        (folder / "rgb" / view.name).rename(folder / "rgb" / f"{number}.jpg")
        c2w = opengl_c2w(view)
        w, x, y, z = quat_from_matrix(c2w[:3, :3])
        poses.append([x, y, z, w, *c2w[:3, 3]])
    first = views[0]
    k = [first.fx, 0, 0, 0, first.fy, 0, first.cx, first.cy, 1]
    values = {"w": first.width, "h": first.height, "K": k, "poses": poses, "fps": 30}
    if per_frame:
        values |= {"K": [1.0] * 9, "perFrameIntrinsicCoeffs": [[v.fx, v.fy, v.cx, v.cy] for v in views]}
    (folder / "metadata.json").write_text(json.dumps(values))
