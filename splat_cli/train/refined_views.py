"""Camera poses of all views after pose refinement."""

from collections.abc import Sequence

from splat_cli.scene.poses import similarity_between
from splat_cli.scene.view import View
from splat_cli.train.trainer import Trainer


def refined_views(trainer: Trainer, views: Sequence[View]) -> list[View]:
    """`views` at refined poses: training views by name, others by the similarity transform between poses.

    Jointly refined cameras may drift together with the splats; the other cameras follow by the similarity transform
    from the given to the refined poses of the training cameras. Without --pose-opt, `views` unchanged.
    """
    given, refined = trainer.cameras.views, trainer.auxiliary.refined_views()
    if refined is None:
        return list(views)
    drift = similarity_between(given, refined)
    trained = {view.name: view for view in refined}
    return [trained.get(view.name) or drift.apply(view) for view in views]
