"""Camera poses of all views after pose refinement."""

import dataclasses
from collections.abc import Mapping, Sequence

from splat_cli.scene.poses import similarity_between
from splat_cli.scene.view import View
from splat_cli.train.trainer import Trainer


def refined_views(trainer: Trainer, views: Sequence[View]) -> list[View]:
    """`views` at refined poses and intrinsics; without --pose-opt, `views` unchanged."""
    refined = trainer.auxiliary.refined_views()
    return list(views) if refined is None else views_following(views, trainer.cameras.views, refined)


def views_following(views: Sequence[View], given: Sequence[View], refined: Sequence[View]) -> list[View]:
    """`views` after training cameras went from `given` to `refined`: those by name, the others moved along.

    Jointly refined cameras may drift together with the splats; the other cameras follow by the similarity transform
    from the given to the refined poses of the training cameras, and share the refined intrinsics of their camera id.
    """
    drift = similarity_between(given, refined)
    trained = {view.name: view for view in refined}
    pairs = {view.camera_id: (view, other) for view, other in zip(given, refined, strict=True)}
    return [trained.get(view.name) or _with_intrinsics(drift.apply(view), pairs) for view in views]


def _with_intrinsics(view: View, pairs: Mapping[int, tuple[View, View]]) -> View:
    """The view with its intrinsics changed as those of its camera; pairs: by camera id a view as given and refined."""
    if view.camera_id not in pairs:
        return view
    given, refined = pairs[view.camera_id]
    x, y = view.fx / given.fx, view.fy / given.fy
    return dataclasses.replace(
        view, fx=x * refined.fx, fy=y * refined.fy, cx=view.cx + x * (refined.cx - given.cx),
        cy=view.cy + y * (refined.cy - given.cy), radial=refined.radial,
    )  # fmt: skip
