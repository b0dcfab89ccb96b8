"""transforms.json of nerfstudio and instant-ngp, and Blender's transforms_train.json."""

from splat_cli.scene.transforms.blender import find_blender, read_blender, without_training_frames
from splat_cli.scene.transforms.nerfstudio import find_transforms, read_transforms

__all__ = ["find_blender", "find_transforms", "read_blender", "read_transforms", "without_training_frames"]
