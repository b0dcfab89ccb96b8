"""transforms_train.json and transforms_test.json of the synthetic scenes that Blender rendered for NeRF."""

from pathlib import Path

from splat_cli.scene.dataset import Dataset, Points
from splat_cli.scene.options import SceneOptions
from splat_cli.scene.photos import photo_folder
from splat_cli.scene.point_cloud import read_point_cloud
from splat_cli.scene.transforms.document import read_document
from splat_cli.scene.transforms.nerfstudio import shots_of

TRAIN, TEST, POINTS = "transforms_train.json", "transforms_test.json", "points3d.ply"


def has_blender(root: Path) -> bool:
    """Whether `root` holds a transforms_train.json."""
    return (root / TRAIN).is_file()


def read_blender(root: Path, options: SceneOptions) -> Dataset:
    """Training and test frames; points from points3d.ply if it is there. Raises SceneError."""
    photos = root if options.images is None else photo_folder(root, root, options)
    document, frames = read_document(root / TRAIN)
    shots, skipped = shots_of(frames, document, photos)
    test_names = None
    if (root / TEST).is_file():
        document, frames = read_document(root / TEST)
        test_shots, test_skipped = shots_of(frames, document, photos)
        shots, skipped = shots + test_shots, skipped + test_skipped
        test_names = frozenset(shot.name for shot in test_shots)
    points = read_point_cloud(root / POINTS) if (root / POINTS).is_file() else Points()
    return Dataset(f"Blender's frames in {root / TRAIN}", photos, shots, points, skipped, test_names)
