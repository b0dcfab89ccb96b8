"""transforms_train.json and transforms_test.json of NeRF's synthetic Blender scenes."""

from pathlib import Path

from splat_cli.errors import SceneError
from splat_cli.scene.dataset import Dataset, Points
from splat_cli.scene.images.locate import image_folder
from splat_cli.scene.options import SceneOptions
from splat_cli.scene.points.point_cloud import read_point_cloud
from splat_cli.scene.transforms.document import read_document
from splat_cli.scene.transforms.nerfstudio import frames_from

TRAIN, TEST, POINTS = "transforms_train.json", "transforms_test.json", "points3d.ply"
_OTHERS = (TEST, "transforms_val.json")


def find_blender(root: Path) -> Path | None:
    """The transforms_train.json in `root`."""
    return root / TRAIN if (root / TRAIN).is_file() else None


def without_training_frames(root: Path) -> str | None:
    """Error message if `root` has files of a Blender scene, but not the training frames; else None."""
    others = [name for name in _OTHERS if (root / name).is_file()]
    if not others or (root / TRAIN).is_file():
        return None
    return (
        f"{root} has {' and '.join(others)}, but no {TRAIN}, which names the photographs to train on: add it, "
        f"or rename {others[0]} to train on its photographs"
    )


def read_blender(root: Path, options: SceneOptions) -> Dataset:
    """Training and test frames; points from points3d.ply if it is there. Raises SceneError."""
    if reason := without_training_frames(root):
        raise SceneError(reason)
    photos = root if options.images is None else image_folder(root, root, options)
    document, entries = read_document(root / TRAIN)
    frames, skipped = frames_from(entries, document, photos)
    test_names = None
    if (root / TEST).is_file():
        document, entries = read_document(root / TEST)
        test_frames, test_skipped = frames_from(entries, document, photos)
        frames, skipped = frames + test_frames, skipped + test_skipped
        test_names = frozenset(frame.name for frame in test_frames)
    points = read_point_cloud(root / POINTS) if (root / POINTS).is_file() else Points()
    return Dataset(f"Blender's frames in {root / TRAIN}", photos, frames, points, skipped, test_names)
