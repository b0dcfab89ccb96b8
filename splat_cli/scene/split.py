"""Split of photographs into training and held-out sets."""

import json
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from splat_cli.errors import FormatError
from splat_cli.files import replacing
from splat_cli.scene.view import View


def split(
    views: Sequence[View], test_every: int, test_names: AbstractSet[str] | None = None
) -> tuple[list[View], list[View]]:
    """(train, test), each sorted by name: `test_names` are held out, or else numbers 0, `test_every`, ... of all.

    None are held out where `test_every` is 0.
    """
    ordered = sorted(views, key=lambda view: view.name)
    if test_every <= 0:
        return ordered, []
    if test_names is None:
        test_names = {view.name for view in ordered[::test_every]}
    train = [view for view in ordered if view.name not in test_names]
    return train, [view for view in ordered if view.name in test_names]


def read_split(path: Path) -> frozenset[str]:
    """The names of held-out photographs: one a line, or `test` of a JSON object. Raises FormatError."""
    try:
        content = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}") from error
    names = _names_in_json(path, content) if content.lstrip().startswith("{") else content.splitlines()
    found = frozenset(name.strip() for name in names if name.strip() and not name.lstrip().startswith("#"))
    if not found:
        raise FormatError(f"{path} names no photograph to hold out; expected one name a line, or a JSON list `test`")
    return found


def write_split(path: Path, train: Sequence[View], test: Sequence[View]) -> None:
    """Writes a file that `read_split` reads, with the names of both."""
    names = {"train": [view.name for view in train], "test": [view.name for view in test]}
    with replacing(path) as beside:
        beside.write_text(json.dumps(names, indent=1) + "\n", encoding="utf-8")


def _names_in_json(path: Path, content: str) -> list[str]:
    try:
        names = json.loads(content).get("test")
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is not a JSON file ({error}); expected one name a line, or a JSON object") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FormatError(f"{path} has no list `test` of names; expected one, or one name a line")
    return names
