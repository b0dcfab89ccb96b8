"""Detection of a scene's dataset format."""

from collections.abc import Callable
from pathlib import Path

from splat_cli.errors import SceneError
from splat_cli.scene.colmap.dataset import has_colmap, read_colmap
from splat_cli.scene.dataset import Dataset
from splat_cli.scene.options import SceneOptions
from splat_cli.scene.transforms import has_blender, has_transforms, read_blender, read_transforms

_Has = Callable[[Path], bool]
_Read = Callable[[Path, SceneOptions], Dataset]

FORMATS: dict[str, tuple[_Has, _Read, str]] = {
    "colmap": (has_colmap, read_colmap, "a COLMAP model (cameras, images and points3D, .bin or .txt, or in a .zip)"),
    "blender": (has_blender, read_blender, "transforms_train.json"),
    "transforms": (has_transforms, read_transforms, "transforms.json"),
}
"""Name -> (is it there?, read it, what it is), in the order in which formats are looked for."""


def has_dataset(root: Path) -> bool:
    """Whether `root` holds a dataset of any format."""
    return any(has(root) for has, _, _ in FORMATS.values())


def read_dataset(root: Path, options: SceneOptions) -> Dataset:
    """The dataset in `root`, in the format of the options, or in the first that is there. Raises SceneError."""
    if options.format != "auto":
        return FORMATS[options.format][1](root, options)
    present = [name for name, (has, _, _) in FORMATS.items() if has(root)]
    if not present:
        wanted = "; ".join(f"{what}" for _, _, what in FORMATS.values())
        raise SceneError(
            f"{root} holds no COLMAP model and no other dataset. Looked for {wanted}, in sparse/0, sparse, "
            "colmap/sparse/0 or the folder itself; run COLMAP on the photographs first (`splat sfm` does)"
        )
    dataset = FORMATS[present[0]][1](root, options)
    if len(present) > 1:
        dataset.found += f" (also there: {', '.join(present[1:])}; --format chooses)"
    return dataset
