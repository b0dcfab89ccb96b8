"""transforms.json of nerfstudio and instant-ngp, and Blender's transforms_train.json."""

from splat_cli.scene.transforms.blender import has_blender, read_blender
from splat_cli.scene.transforms.nerfstudio import has_transforms, read_transforms

__all__ = ["has_blender", "has_transforms", "read_blender", "read_transforms"]
