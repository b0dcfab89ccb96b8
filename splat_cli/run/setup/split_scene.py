"""The split of a scene into training and held-out views, according to the settings of a run."""

from pathlib import Path

from splat_cli.config import TrainConfig
from splat_cli.errors import SceneError
from splat_cli.scene.split import read_split, sector_names, split
from splat_cli.scene.view import Scene, View


def split_scene(scene: Scene, config: TrainConfig) -> tuple[list[View], list[View], bool]:
    """(train, test, whether split.json must list them): by --split, the dataset's own split, or --split-by.

    SceneError if either part would be empty.
    """
    if not config.eval:
        return *split(scene.views, 0), False
    names = scene.test_names if config.split is None else read_split(Path(config.split))
    if names is None and config.split_by == "sector":
        names = sector_names(scene.views, config.test_every)
    train, test = split(scene.views, config.test_every, names)
    if not (train and test):
        raise SceneError(_why_no_split(scene, config, bool(train)))
    return train, test, names is not None


def unknown_names(scene: Scene, config: TrainConfig) -> list[str]:
    """Held-out names, of --split or of the dataset, that no photograph has; those skipped do not count."""
    names = scene.test_names if config.split is None else read_split(Path(config.split))
    if not config.eval or names is None:
        return []
    skipped = {line.partition(": ")[0] for line in scene.skipped}
    return sorted(names - {view.name for view in scene.views} - skipped)


def _why_no_split(scene: Scene, config: TrainConfig, has_train: bool) -> str:
    """Error message if no photograph is left for training, or for evaluation."""
    if config.split is None and scene.test_names is None:
        return f"{scene.root} has too few photographs to hold one out: train without --eval"
    by = config.split or "the dataset"
    if not has_train:
        return f"all {len(scene.views):,} photographs of {scene.root} are held out by {by}: train without --eval"
    if config.split is not None:
        return f"{scene.root} has none of the photographs that {by} names: compare the names"
    missing = f" ({scene.skipped[0]})" if scene.skipped else ""
    return f"{scene.root} has none of the photographs that {by} holds out{missing}: restore them, or leave out --eval"
