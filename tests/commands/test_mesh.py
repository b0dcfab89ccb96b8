"""Meshes: extraction from signed distances, cleaning, files, and the command."""

import dataclasses
import json

import numpy as np
import plyfile
import pytest

from splat_cli.commands import mesh
from splat_cli.commands.mesh import Mesh, merged_vertices, without_small_parts, write_mesh, zero_surface
from splat_cli.device import open_backend
from splat_cli.gaussians.formats.gltf import read_container
from splat_cli.render.depth_fusion import DepthMaps
from splat_cli.run import export_splats
from splat_cli.run.storage.load_run import load_trained_splats
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.points.observations import Observations
from splat_cli.terminal.console import Display
from tests.views import ring_of_views

pytest.importorskip("skimage")
MESH = Mesh(
    np.array([[0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3]], np.float32),
    np.array([[255, 0, 0], [0, 128, 0], [0, 0, 255], [9, 9, 9]], np.uint8),
    np.array([[0, 1, 2], [0, 2, 3]], np.int32),
)


def ball(center, radius, size=24):
    grid = np.stack(np.meshgrid(*[np.arange(size)] * 3, indexing="ij"), axis=-1)
    return (np.linalg.norm(grid - center, axis=-1) - radius).astype(np.float32)


def area_and_volume(vertices, faces):
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    cross = np.cross(b - a, c - a)
    return np.linalg.norm(cross, axis=1).sum() / 2, (a * cross).sum() / 6


def test_ball_is_closed_and_faces_outwards():
    vertices, faces = zero_surface(ball([11, 12, 12], 8), np.ones((24,) * 3, bool))
    np.testing.assert_allclose(np.linalg.norm(vertices - [11, 12, 12], axis=1), 8, atol=0.03)
    area, volume = area_and_volume(vertices, faces)
    assert area == pytest.approx(4 * np.pi * 64, rel=0.02)
    assert volume == pytest.approx(4 / 3 * np.pi * 512, rel=0.02)


def test_nothing_is_meshed_beside_unknown_points():
    distances = ball([12, 12, 12], 8)
    known = np.ones(distances.shape, bool)
    known[12] = False
    vertices, faces = zero_surface(distances, known)
    x = vertices[faces][..., 0]
    assert x.min() < 5
    assert x.max() > 19
    assert not ((x.max(axis=1) > 11) & (x.min(axis=1) < 13)).any()
    assert zero_surface(distances, np.zeros_like(known)) is None
    assert zero_surface(np.ones_like(distances), known) is None


def test_chunks_are_joined_at_their_border():
    whole, distances = zero_surface(ball([12, 12, 12], 8), np.ones((24,) * 3, bool)), ball([12, 12, 12], 8)
    left = zero_surface(distances[:13], np.ones((13, 24, 24), bool))
    right = zero_surface(distances[12:], np.ones((12, 24, 24), bool))
    vertices = np.concatenate([left[0], right[0] + [12, 0, 0]])
    faces = np.concatenate([left[1], right[1] + len(left[0])])
    assert len(vertices) > len(whole[0])
    joined = merged_vertices(vertices, faces)
    assert len(joined[0]) == len(merged_vertices(*whole)[0])
    edges = np.sort(np.concatenate([joined[1][:, [a, b]] for a, b in ((0, 1), (1, 2), (2, 0))]), axis=1)
    assert (np.unique(edges, axis=0, return_counts=True)[1] == 2).all()  # without holes


def test_small_parts_are_removed():
    distances = np.minimum(ball([8, 8, 8], 6), ball([20, 20, 20], 2))
    mesh = merged_vertices(*zero_surface(distances, np.ones(distances.shape, bool)))
    vertices, faces = without_small_parts(*mesh, min_part=0.2)
    assert 0 < len(faces) < len(mesh[1])
    assert vertices.max() < 15
    assert len(vertices) == faces.max() + 1
    assert len(without_small_parts(*mesh, min_part=0)[1]) == len(mesh[1])


def test_ply_has_vertices_colours_and_faces(tmp_path):
    write_mesh(tmp_path / "a.ply", MESH)
    data = plyfile.PlyData.read(str(tmp_path / "a.ply"))
    vertex = data["vertex"]
    np.testing.assert_array_equal(np.stack([vertex[name] for name in "xyz"], axis=1), MESH.vertices)
    np.testing.assert_array_equal(np.stack([vertex[n] for n in ("red", "green", "blue")], axis=1), MESH.colors)
    np.testing.assert_array_equal(np.stack(data["face"]["vertex_indices"]), MESH.faces)


def test_obj_has_colours_after_coordinates(tmp_path):
    write_mesh(tmp_path / "a.obj", MESH)
    lines = (tmp_path / "a.obj").read_text().splitlines()
    assert lines[1] == "v 1 0 0 0.0000 0.5020 0.0000"
    assert lines[-1] == "f 1 3 4"


def test_glb_has_the_axes_and_linear_colours_of_gltf(tmp_path):
    write_mesh(tmp_path / "a.glb", MESH)
    document, content = read_container((tmp_path / "a.glb").read_bytes())
    position, color = (np.frombuffer(content, "<f4", 12, 48 * k).reshape(4, 3) for k in (0, 1))
    np.testing.assert_array_equal(position, MESH.vertices * [-1, -1, 1])
    np.testing.assert_allclose(color[:2], [[1, 0, 0], [0, 0.2159, 0]], atol=1e-4)
    np.testing.assert_array_equal(np.frombuffer(content, "<u4", 6, 96), MESH.faces.ravel())
    assert document["accessors"][0]["max"] == [0, 0, 3]
    assert document["meshes"][0]["primitives"][0]["indices"] == 2


def test_command_writes_a_mesh_of_a_run(splat, trained, tmp_path, monkeypatch):
    """The meshed splats are moved towards the points of the dataset by two steps."""
    out, inputs, build_trainer = tmp_path / "toy.ply", [], export_splats.build_trainer
    kept, without_hidden = [], mesh.without_hidden
    monkeypatch.setattr(mesh, "without_hidden", lambda *given: kept.append(without_hidden(*given)) or kept[-1])
    monkeypatch.setattr(export_splats, "build_trainer", lambda *given: inputs.append(given[2]) or build_trainer(*given))
    options = "--device", "cpu", "--voxel", "0.2", "--max-depth", "6"
    done = splat("mesh", trained, out, *options, "--steps", "2", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["triangles"] == plyfile.PlyData.read(str(out))["face"].count > 100
    assert found["voxel"] == 0.2
    assert len(inputs) == 1
    assert inputs[0].points is kept[0]
    assert inputs[0].points.begins[-1] > 100


def test_a_mesh_ends_at_the_crop_of_the_run(splat, run_copy):
    config = run_copy / "config.toml"
    config.write_text(config.read_text().replace("[run]", 'crop = "0,0,0,0.8"\n\n[run]'))
    options = "--device", "cpu", "--voxel", "0.2", "--max-depth", "6", "--steps", "0"
    done = splat("mesh", run_copy, "a.ply", *options)
    assert done.code == 0, done.err
    vertex = plyfile.PlyData.read("a.ply")["vertex"]
    assert 0.4 < np.linalg.norm([vertex[name] for name in "xyz"], axis=0).max() <= 0.8


def test_splats_are_fitted_to_points_unless_training_did_so(run_copy, monkeypatch, capsys):
    calls, run, backend = [], RunDir(run_copy), open_backend("cpu")
    config, scene, splats = run.config(), run.scene_path(), load_trained_splats(run_copy)[0]

    def fine_tune(backend, splats, photographs, config, steps, show, points, **changes):
        calls.append((len(photographs.views), steps, len(points.pixels) > 0, changes))

    def drawn(steps=7, scene=scene, **changes):
        run.save_config(dataclasses.replace(config, **changes), scene, "CPU")
        return mesh.fitted_to_points(splats, run, backend, Display(), steps)

    monkeypatch.setattr(mesh, "fine_tune", fine_tune)
    assert drawn() is None
    assert calls == [(len(run.views("train")), 7, True, {"depth_weight": 3.0})]
    assert drawn(steps=0) is drawn(depth_weight=0.5) is splats
    assert drawn(scene=run_copy / "gone") is splats
    assert "splats are not fitted to points" in capsys.readouterr().err
    assert len(calls) == 1


def test_points_behind_surfaces_do_not_draw_splats():
    """The left half of the second view shows a wall at depth 2; a point may seem to be up to a fifth behind it."""
    backend, views = open_backend("cpu"), ring_of_views(3, width=32, height=24)
    depths, weights = np.zeros((3, 24, 32), np.float32), np.zeros((3, 24, 32), np.float32)
    depths[1, :, :16], weights[1, :, :16] = 2, 0.5
    maps = DepthMaps(backend, views, None, 24 * 32 * np.arange(3), depths.ravel(), weights.ravel(), None)
    x, y = np.array([4.5, 20.5, 8.5, 12.5]), np.array([3.5, 7.5, 11.5, 15.5])
    z = np.array([2.5, 2.5, 2.3, 1.0])
    placed = np.stack([(x - views[1].cx) / views[1].fx * z, (y - views[1].cy) / views[1].fy * z, z], axis=1)
    points = views[1].center + placed @ views[1].w2c[:3, :3]
    begins, numbers = np.array([0, 1, 5, 5], np.int32), np.array([0, 0, 1, 2, 3], np.int32)
    everywhere = Observations(begins, np.arange(5, dtype=np.int32), 1 / np.float32([9, *z]), numbers)
    seen = mesh.without_hidden(everywhere, points, maps)
    assert seen.begins.tolist() == [0, 1, 4, 4]
    assert seen.points.tolist() == [0, 1, 2, 3]
    assert seen.pixels.tolist() == [0, 2, 3, 4]
    np.testing.assert_array_equal(seen.inverse_depths, 1 / np.float32([9, *z[1:]]))


@pytest.mark.parametrize(("voxel", "cell"), [(0.2, 0.2), (0.001, 0.0075 * 2.7)])
def test_a_mesh_is_made_of_flattened_depths(splat, trained, tmp_path, monkeypatch, voxel, cell):
    """Cells of planes are not smaller than the error of depths, 0.75 % of the median."""
    seen = []

    def flattened(maps, planes, points, voxel, count):
        seen.append((voxel, len(points) > 0, planes.offsets.ndim))
        return dataclasses.replace(maps, weights=maps.weights * 0)

    monkeypatch.setattr(mesh, "flattened", flattened)
    options = "--device", "cpu", "--voxel", voxel, "--max-depth", "6", "--steps", "0"
    done = splat("mesh", trained, tmp_path / "a.ply", *options)
    assert "shows no surface on which views agree" in done.err
    assert seen == [(pytest.approx(cell, rel=0.1), True, 1)]


def test_wrong_names_are_refused_before_work(splat, trained, tmp_path):
    done = splat("mesh", trained, tmp_path / "a.stl")
    assert done.code == 2
    assert "expected one that ends in .ply, .glb, .obj" in done.err
    file = trained / "point_cloud" / "iteration_20" / "point_cloud.ply"
    (tmp_path / "alone.ply").write_bytes(file.read_bytes())
    done = splat("mesh", tmp_path / "alone.ply", tmp_path / "a.ply", "--device", "cpu")
    assert done.code == 2
    assert "has no views: give the folder of a run" in done.err


def test_the_origin_of_geographic_coordinates_is_named(splat, run_copy, monkeypatch):
    run = RunDir(run_copy)
    run.save_config(run.config(), run.scene_path(), "CPU", (437200, 5421300, 110))
    monkeypatch.setattr(mesh, "mesh_of_run", lambda *arguments: (MESH, 0.1))
    assert "coordinates are relative to 437200, 5421300, 110" in splat("mesh", run_copy, "a.ply", "--device", "cpu").out
