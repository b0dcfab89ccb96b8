"""Implementation of `splat mesh`: a coloured triangle mesh of the surface that a run's views agree on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import plyfile

from splat_cli.device import Backend
from splat_cli.errors import UsageError
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.formats.gltf import write_mesh_glb
from splat_cli.gaussians.splats import Splats
from splat_cli.io.files import replacing, require_writable
from splat_cli.render.depth_fusion import DepthMaps, light_left_behind, render_depth_maps, unprojected
from splat_cli.render.planes import find_planes, flattened
from splat_cli.run.export_splats import fine_tune
from splat_cli.run.storage.find_run import refuse_file_of_run
from splat_cli.run.storage.load_run import (
    inside_crop,
    load_run_images,
    load_trained_splats,
    read_run_scene,
    warn_of_earlier_step,
)
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.points.observations import Observations, observe
from splat_cli.terminal.console import Display

CHUNK = 64
"""Voxels along each side of a chunk that is fused and meshed at once."""
TRUNCATION = 4.0
"""Distance from the surface up to which depths are fused, voxels."""
_DEPTH_WEIGHT = 3.0
"""Weight of depths in the loss of `fitted_to_points`: three times that of --preset mesh, which begins with it."""
_HIDDEN = 1.2
"""Depth of a point, relative to the surface in its pixel, from which on the surface hides it."""
_PIXELS = 1.5
"""Size of a voxel, in pixels at the median depth."""
_MAX_VOXELS = 512
"""Maximum number of voxels along the longest side of the scene, by default."""
_MAX_DEPTH = 3.0
"""Maximum depth of meshed surfaces, relative to the median depth, by default."""
_PLANE_CELL = 0.0075
"""Minimum size of voxels for planes, relative to the median depth: smaller voxels do not make depths more exact."""
_STRIDE = 4
"""Every how many pixels, in rows and columns, depths are searched for occupied chunks."""
_BORDER = (2, 98)
"""Percentiles of positions that define the size of the scene."""
_SAME = 1e-4
"""Distance below which vertices are the same, voxels: chunks share the vertices on their borders."""


@dataclass(frozen=True)
class Mesh:
    """Triangles: vertices float32 [V, 3], world units; colors uint8 [V, 3], sRGB; faces int32 [F, 3], front sides
    counterclockwise.
    """

    vertices: np.ndarray
    colors: np.ndarray
    faces: np.ndarray


def require_mesh(path: Path) -> None:
    """UsageError or DiskError if no mesh can be written to `path`; called before long work."""
    if path.suffix.lower() not in WRITERS:
        raise UsageError(f"{path} is not a name for a mesh: expected one that ends in {', '.join(WRITERS)}")
    try:
        import skimage.measure  # noqa: F401
    except ImportError:
        raise UsageError("meshes need scikit-image: pip install 'splat-cli[mesh]'") from None
    refuse_file_of_run(path)
    require_writable(path)


def mesh_of_run(
    source: Path,
    backend: Backend,
    display: Display,
    voxel: float | None,
    max_depth: float | None,
    min_part: float,
    steps: int,
) -> tuple[Mesh, float]:
    """Mesh of the last splats of a run, and the size of its voxels, world units.

    voxel: default: see `_PIXELS`, `_MAX_VOXELS`. max_depth: world units; default: see `_MAX_DEPTH`. min_part: parts
    with a smaller share of all faces are removed, as is what lies outside of --crop. steps: see `fitted_to_points`.
    UsageError if there is no surface.
    """
    arrays, run = load_trained_splats(source)
    if run is None:
        raise UsageError(f"{source} has no views: give the folder of a run")
    warn_of_earlier_step(source, display)
    arrays = fitted_to_points(arrays, run, backend, display, steps)
    maps = _depth_maps(Splats.from_arrays(backend, arrays), run, backend, display)
    found, depths = _sampled(maps)
    if not len(found):
        raise UsageError(
            f"{source} shows no surface: no pixel of its {len(maps.views)} views is opaque; train it longer"
        )
    median = float(np.median(depths))
    max_depth = _MAX_DEPTH * median if max_depth is None else max_depth
    points = found[depths < max_depth]
    voxel = _voxel(points, median, maps) if voxel is None else voxel
    cell = max(voxel, _PLANE_CELL * median)
    planes = find_planes(points, TRUNCATION * cell)
    with display.counting("planes", len(planes.offsets)) as count:
        maps = flattened(maps, planes, points, cell, count)
    maps = maps.without_outliers(TRUNCATION * voxel)
    vertices, faces = _surface(maps, voxel, max_depth, display)
    if not len(faces):
        raise UsageError(f"{source} shows no surface on which views agree; try larger voxels than {voxel:.3g}")
    vertices, faces = merged_vertices(vertices, faces)
    faces = faces[inside_crop(vertices * voxel, run)[faces].all(axis=1)]
    if not len(faces):
        raise UsageError(f"{source} shows no surface inside of its --crop: train it with a larger one")
    vertices, faces = without_small_parts(vertices, faces, min_part)
    points = (vertices * voxel).astype(np.float32)
    all_views = np.arange(len(maps.views))
    colors = maps.fuse(backend.upload(points), TRUNCATION * voxel, all_views, with_colors=True).colors
    return Mesh(points, np.rint(backend.download(colors)).astype(np.uint8), faces.astype(np.int32)), voxel


def _depth_maps(splats: Splats, run: RunDir, backend: Backend, display: Display) -> DepthMaps:
    """Depths of the splats in the run's training views."""
    views, antialias = run.views("train"), run.config().antialias
    with display.counting("depth maps", len(views)) as count:
        light_left = light_left_behind(backend, splats, views, antialias, TRUNCATION * _PLANE_CELL)
        return render_depth_maps(backend, splats, views, antialias, count, light_left)


def _voxel(points: np.ndarray, median_depth: float, maps: DepthMaps) -> float:
    """Default size of voxels, world units, for the surface that points [P, 3] are sampled from."""
    extent = np.ptp(np.percentile(points, _BORDER, axis=0), axis=0).max() if len(points) else 0.0
    pixel = median_depth / float(np.median([view.fx for view in maps.views]))
    return max(_PIXELS * pixel, float(extent) / _MAX_VOXELS)


def fitted_to_points(splats: SplatArrays, run: RunDir, backend: Backend, display: Display, steps: int) -> SplatArrays:
    """The splats after `steps` more steps with a loss on their depths at the dataset's points.

    Photographs alone do not show how far away plain surfaces are: the splats there are at various depths. Points that
    the splats hide from a view are left out: they would pull a hole into what is in front. Unchanged after runs with
    such a loss, and where points or photographs are missing.
    """
    config = run.config()
    if not steps or config.depth_weight:
        return splats
    try:
        found = read_run_scene(run, None)
        photographs = load_run_images(run, run.views("train"), found, backend, display, for_training=True)
    except UsageError as error:
        display.warn(f"surfaces are less exact, since splats are not fitted to points: {error}")
        return splats
    points = found.points
    if not len(points):
        return splats
    seen = without_hidden(
        observe(photographs.views, points),
        points,
        # not kept: training needs their memory
        render_depth_maps(backend, Splats.from_arrays(backend, splats), photographs.views, config.antialias),
    )
    display.say(f"Fitting {len(splats):,} splats to {len(points):,} points: {steps} steps")
    with display.training(steps) as show:
        return fine_tune(backend, splats, photographs, config, steps, show, seen, depth_weight=_DEPTH_WEIGHT)


def without_hidden(seen: Observations, points: np.ndarray, maps: DepthMaps) -> Observations:
    """Observations of points [P, 3] without those behind a surface of the depth map of their view."""
    visible = []
    for index, numbers in enumerate(np.split(seen.points, seen.begins[1:-1])):
        places, z, inside = maps.views[index].project(points[numbers])
        column, row = np.where(inside[:, None], places, 0).astype(np.int64).T
        depths, weights = (maps.backend.download(values)[row, column] for values in maps.of_view(index))
        visible.append((weights == 0) | (z < _HIDDEN * depths) | ~inside)
    return seen.select(np.concatenate(visible))


def _sampled(maps: DepthMaps) -> tuple[np.ndarray, np.ndarray]:
    """Surface points [P, 3] of every `_STRIDE`-th row and column of all views, and their depths [P]."""
    points, depths, download = [], [], maps.backend.download
    for index, view in enumerate(maps.views):
        depth, weight = maps.of_view(index)
        is_surface = download(weight[::_STRIDE, ::_STRIDE].ravel()) > 0
        points.append(download(unprojected(maps.backend.xp, view, depth, _STRIDE))[is_surface])
        depths.append(download(depth[::_STRIDE, ::_STRIDE].ravel())[is_surface])
    return np.concatenate(points), np.concatenate(depths)


def _surface(maps: DepthMaps, voxel: float, max_depth: float, display: Display) -> tuple[np.ndarray, np.ndarray]:
    """Vertices float64 [V, 3] in voxels, and faces int64 [F, 3], chunk by chunk; borders of chunks are not joined."""
    chunks = _occupied(maps, voxel, max_depth)
    backend, steps = maps.backend, np.arange(CHUNK + 1, dtype=np.float32)
    grid = backend.upload(np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 3))
    vertices, faces, num = [np.zeros((0, 3))], [np.zeros((0, 3), np.int64)], 0
    with display.counting("chunks", len(chunks)) as count:
        for chunk in chunks:
            corner = chunk * CHUNK
            center, radius = (corner + CHUNK / 2) * voxel, CHUNK * voxel * np.sqrt(0.75)
            points = (grid + backend.upload(corner.astype(np.float32))) * voxel
            fused = maps.fuse(points, TRUNCATION * voxel, maps.views_near(center, radius))
            distances, totals = (
                backend.download(values).reshape((CHUNK + 1,) * 3) for values in (fused.distances, fused.totals)
            )
            part = zero_surface(distances, totals > 0)
            if part is not None:
                vertices.append(part[0] + corner)
                faces.append(part[1] + num)
                num += len(part[0])
            count(1)
    return np.concatenate(vertices), np.concatenate(faces)


def _occupied(maps: DepthMaps, voxel: float, max_depth: float) -> np.ndarray:
    """Chunks int64 [C, 3] that surfaces may pass through, in chunks from the world's origin."""
    size, reach = CHUNK * voxel, TRUNCATION * voxel
    points, depths = _sampled(maps)
    points = points[depths < max_depth]
    chunks = np.concatenate([np.floor((points + offset) / size).astype(np.int64) for offset in (-reach, reach)])
    if not len(chunks):
        return chunks
    low, shape = chunks.min(axis=0), np.ptp(chunks, axis=0) + 1
    numbers = np.unique(np.ravel_multi_index(tuple((chunks - low).T), tuple(shape)))  # faster than rows
    return np.stack(np.unravel_index(numbers, tuple(shape)), axis=1) + low


def zero_surface(distances: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Vertices [V, 3] in steps of the grid, and faces [F, 3], where `distances` [X, Y, Z] cross 0; None: nowhere.

    Only cubes whose eight corners are all `known`, bool [X, Y, Z], have faces (marching cubes: Lorensen and Cline 1987,
    Lewiner et al. 2003).
    """
    from skimage import measure

    marching_cubes: Any = measure.marching_cubes

    inside = distances[known]
    if not len(inside) or not inside.min() < 0 < inside.max():
        return None
    mask = np.zeros_like(known)
    # scikit-image looks for a cube at its last corner
    mask[1:, 1:, 1:] = _all_corners(known)
    if not mask.any():
        return None
    try:
        vertices, faces, _, _ = marching_cubes(distances, 0.0, mask=mask, allow_degenerate=False)
    except (RuntimeError, ValueError):  # the only crossings lie in cubes that are not known
        return None
    return vertices, faces


def _all_corners(known: np.ndarray) -> np.ndarray:
    """Whether all eight corners of a cube are known, bool [X - 1, Y - 1, Z - 1]."""
    known = known[1:] & known[:-1]
    known = known[:, 1:] & known[:, :-1]
    return known[:, :, 1:] & known[:, :, :-1]


def merged_vertices(vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Join vertices closer than about _SAME; faces that become degenerate are removed."""
    keys = np.rint(vertices / _SAME).astype(np.int64)
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    faces = inverse.reshape(-1)[faces]
    distinct = (faces != np.roll(faces, 1, axis=1)).all(axis=1)
    return vertices[first], faces[distinct]


def without_small_parts(vertices: np.ndarray, faces: np.ndarray, min_part: float) -> tuple[np.ndarray, np.ndarray]:
    """Remove connected parts with less than the share `min_part` of all faces, and unused vertices."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ends = np.concatenate([faces[:, :2], faces[:, 1:]])
    links = coo_array((np.ones(len(ends), bool), (ends[:, 0], ends[:, 1])), shape=(len(vertices),) * 2)
    part = connected_components(links, directed=False)[1][faces[:, 0]]
    faces = faces[np.bincount(part)[part] >= min_part * len(faces)]
    used, inverse = np.unique(faces, return_inverse=True)
    return vertices[used], inverse.reshape(-1, 3)


def write_mesh(path: Path, mesh: Mesh) -> None:
    """Write a mesh in the format of the suffix; atomic. .glb has the axes of glTF: x left, y up, z forward."""
    WRITERS[path.suffix.lower()](path, mesh)


def _write_ply(path: Path, mesh: Mesh) -> None:
    columns = [*((name, "<f4") for name in "xyz"), *((name, "u1") for name in ("red", "green", "blue"))]
    vertices = np.empty(len(mesh.vertices), columns)
    for (name, _), values in zip(columns, [*mesh.vertices.T, *mesh.colors.T], strict=True):
        vertices[name] = values
    faces = np.empty(len(mesh.faces), [("vertex_indices", "<i4", (3,))])
    faces["vertex_indices"] = mesh.faces
    elements = [plyfile.PlyElement.describe(vertices, "vertex"), plyfile.PlyElement.describe(faces, "face")]
    with replacing(path) as temporary:
        plyfile.PlyData(elements, byte_order="<").write(str(temporary))


def _write_obj(path: Path, mesh: Mesh) -> None:
    """Colours follow the coordinates of a vertex, as MeshLab and Blender read them."""

    def lines() -> Iterable[str]:
        for (x, y, z), (r, g, b) in zip(mesh.vertices.tolist(), (mesh.colors / 255).tolist(), strict=True):
            yield f"v {x:.7g} {y:.7g} {z:.7g} {r:.4f} {g:.4f} {b:.4f}\n"
        for a, b, c in (mesh.faces + 1).tolist():
            yield f"f {a} {b} {c}\n"

    with replacing(path) as temporary, temporary.open("w", encoding="ascii") as file:
        file.writelines(lines())


def _write_glb(path: Path, mesh: Mesh) -> None:
    write_mesh_glb(path, mesh.vertices, mesh.colors, mesh.faces)


WRITERS = {".ply": _write_ply, ".glb": _write_glb, ".obj": _write_obj}
"""Suffix -> function that writes a mesh."""
