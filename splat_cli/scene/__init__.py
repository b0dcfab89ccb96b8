"""Datasets: cameras, photographs and points."""

from splat_cli.scene.dataset import SceneOptions
from splat_cli.scene.extent import scene_extent
from splat_cli.scene.images.image_set import ImageSet, load_images
from splat_cli.scene.read import read_scene
from splat_cli.scene.split import split
from splat_cli.scene.view import Scene, View

__all__ = [
    "ImageSet",
    "Scene",
    "SceneOptions",
    "View",
    "load_images",
    "read_scene",
    "scene_extent",
    "split",
]
