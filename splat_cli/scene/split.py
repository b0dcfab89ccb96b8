"""Which photographs are trained on and which are held out."""

from collections.abc import Sequence

from splat_cli.scene.view import View


def split(views: Sequence[View], test_every: int) -> tuple[list[View], list[View]]:
    """(train, test): of the views sorted by name, numbers 0, `test_every`, ... are held out; none where it is 0."""
    ordered = sorted(views, key=lambda view: view.name)
    if test_every <= 0:
        return ordered, []
    train = [view for i, view in enumerate(ordered) if i % test_every]
    return train, ordered[::test_every]
