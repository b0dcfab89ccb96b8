"""Camera poses of all views after pose refinement."""

from collections.abc import Sequence

from splat_cli.scene.poses import similarity_between
from splat_cli.scene.view import View
from splat_cli.train.trainer import Trainer


def refined_views(trainer: Trainer, views: Sequence[View]) -> list[View]:
    """`views` as they are now: those trained on (by name) at their refined poses, the others moved along.

    Cameras that are refined together may drift together, and the splats with them: the others follow by the similarity
    that takes the training cameras from where they were to where they are. Without --pose-opt nothing has moved.
    """
    given, refined = trainer.cameras.views, trainer.auxiliary.refined_views()
    if refined is None:
        return list(views)
    drift = similarity_between(given, refined)
    trained = {view.name: view for view in refined}
    return [trained.get(view.name) or drift.apply(view) for view in views]
