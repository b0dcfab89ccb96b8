"""Split of photographs into training and held-out sets."""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import ceil_div
from splat_cli.errors import FormatError, SceneError
from splat_cli.io.files import regular, replacing
from splat_cli.io.json_input import parse_json, read_json_text
from splat_cli.scene.dataset import MAX_PHOTOGRAPHS, shown_name
from splat_cli.scene.view import Scene, View

_LISTS = {"train", "test"}
_FIRST, _MAX_LINE = 1024, 4096  # characters; lines of devices such as /dev/zero never end


class Split(NamedTuple):
    """Training and held-out views. is_named: names or neighbours chose them, so that split.json must list them."""

    train: list[View]
    test: list[View]
    is_named: bool = False


def split_scene(scene: Scene, config: TrainConfig, is_new: bool = True) -> Split:
    """The split of a run: by --split, the dataset's own split, or --split-by.

    SceneError if either part would be empty. is_new: the run begins now; only then are unclear files refused.
    """
    if not config.eval:
        return Split(*split(scene.views, 0))
    names = scene.test_names
    if config.split is not None:
        lists = _read_lists(Path(config.split))
        names = lists["test"]
        if is_new:
            _refuse_unclear(config.split, lists, {view.name for view in scene.views})
    if names is None and config.split_by == "sector":
        names = sector_names(scene.views, config.test_every)
    train, test = split(scene.views, config.test_every, names)
    if not (train and test):
        raise SceneError(_why_no_split(scene, config, bool(train)))
    return Split(train, test, is_named=names is not None)


def _refuse_unclear(path: str, lists: Mapping[str, AbstractSet[str]], names: AbstractSet[str]) -> None:
    """FormatError for lists of other names, SceneError for photographs in no list or in both."""
    if lists.keys() - _LISTS:
        raise _unknown_lists(path, lists)
    if both := lists.get("train", frozenset()) & lists["test"]:
        raise SceneError(f"{path} lists {min(both)} in `train` and in `test`: remove it from one of them")
    if "train" in lists and (others := names - lists["train"] - lists["test"]):
        raise SceneError(f"{path} lists {min(others)} neither in `train` nor in `test`: add it, or remove `train`")


def _unknown_lists(path: Path | str, lists: Iterable[str]) -> FormatError:
    found = ", ".join(shown_name(key) for key in lists)
    return FormatError(f"{path} has the lists {found}; expected `test` and perhaps `train`, or one name per line")


def unknown_names(scene: Scene, config: TrainConfig) -> list[str]:
    """Names that --split or the dataset holds out and no photograph has, except those of skipped photographs."""
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


def split(
    views: Sequence[View], test_every: int, test_names: AbstractSet[str] | None = None
) -> tuple[list[View], list[View]]:
    """(train, test), sorted by name; held out: `test_names`, or numbers 0, `test_every`, ...

    None are held out if `test_every` is 0.
    """
    ordered = sorted(views, key=lambda view: view.name)
    if test_every <= 0:
        return ordered, []
    if test_names is None:
        test_names = {view.name for view in ordered[::test_every]}
    train = [view for view in ordered if view.name not in test_names]
    return train, [view for view in ordered if view.name in test_names]


def sector_names(views: Sequence[View], test_every: int) -> frozenset[str]:
    """Names of a share 1 / `test_every` of the photographs, in up to three groups of four or more neighbouring cameras.

    A held-out photograph of `split` is between two training photographs, which rewards interpolation. Here, the
    nearest cameras are held out, too. Groups are far from each other: each begins with the camera farthest from the
    earlier ones (farthest-point sampling) and adds its nearest neighbours.
    """
    ordered = sorted(views, key=lambda view: view.name)
    num_test = ceil_div(len(ordered), test_every)
    num_sectors = max(1, min(3, num_test // 4))
    distances = _camera_distances(ordered)
    held_out: list[int] = []
    for sector in range(num_sectors):
        first = int(distances[held_out].min(axis=0).argmax()) if held_out else 0
        size = (sector + 1) * num_test // num_sectors - len(held_out)
        near = [int(i) for i in np.argsort(distances[first], kind="stable") if int(i) not in held_out]
        held_out += near[:size]
    return frozenset(ordered[i].name for i in held_out)


def _camera_distances(views: Sequence[View]) -> np.ndarray:
    """float64 [V, V]: distance of centres relative to the cameras' extent, plus the angle of the axes in radians."""
    centers = np.array([view.center for view in views])
    axes = np.array([view.w2c[2, :3] for view in views])
    between = np.linalg.norm(centers[:, None] - centers[None], axis=2)
    return between / max(float(between.max()) / 2, 1e-12) + np.arccos(np.clip(axes @ axes.T, -1, 1))


def read_split(path: Path) -> frozenset[str]:
    """Names of held-out photographs: one per line, or `test` of a JSON object. Raises FormatError."""
    return _read_lists(path)["test"]


def _read_lists(path: Path) -> dict[str, frozenset[str]]:
    """Names in `test` and, if a JSON object has it, `train`; other lists of it are empty. Raises FormatError."""
    try:
        with regular(path).open(encoding="utf-8-sig", errors="surrogateescape") as file:
            is_json = file.read(_FIRST).lstrip().startswith("{")
            file.seek(0)
            lines = itertools.islice(iter(partial(file.readline, _MAX_LINE), ""), MAX_PHOTOGRAPHS)
            lists = _lists_in_json(path) if is_json else {"test": lines}
            found = {key: _names(names if key in _LISTS else ()) for key, names in lists.items()}
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}") from error
    if not found["test"]:
        raise FormatError(f"{path} names no photograph to hold out; expected one name per line, or a JSON list `test`")
    return found


def _names(lines: Iterable[str]) -> frozenset[str]:
    """The lines that are not empty or comments, without spaces around them."""
    return frozenset(name.strip() for name in lines if name.strip() and not name.lstrip().startswith("#"))


def write_split(path: Path, split: Split) -> None:
    """Write a file for `read_split`, with the names of both sets."""
    names = {"train": [view.name for view in split.train], "test": [view.name for view in split.test]}
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(names, indent=1) + "\n", encoding="utf-8")


def _lists_in_json(path: Path) -> dict[str, list[str]]:
    try:
        lists = parse_json(read_json_text(path))
    except ValueError as error:
        raise FormatError(
            f"{path} is not a JSON file ({error}); expected one name per line, or a JSON object"
        ) from error
    if "test" not in lists:
        raise _unknown_lists(path, lists)
    for names in (lists[key] for key in lists.keys() & _LISTS):
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise FormatError(f"{path} has a value that is not a list of names; expected such lists")
    return lists
