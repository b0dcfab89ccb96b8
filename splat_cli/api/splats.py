"""Functions of `import splat_cli` for splats of any origin: pictures, measurements and files."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from splat_cli.api.result import RenderedImage, Scores
from splat_cli.commands.export import ExportJob, ExportTarget
from splat_cli.config import TrainConfig
from splat_cli.device import shared_backend
from splat_cli.errors import UsageError, name_advice
from splat_cli.eval.evaluate import TrainedModel
from splat_cli.eval.evaluate import evaluate as evaluate_images
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.editing.edits import Edits
from splat_cli.gaussians.editing.move import with_origin
from splat_cli.gaussians.formats import read_splats, write_splats
from splat_cli.gaussians.splats import Splats
from splat_cli.io.color import color_of
from splat_cli.render.view import render_image
from splat_cli.run.setup.training_data import load_image_set
from splat_cli.run.storage.inputs import seen_photographs
from splat_cli.scene.crop import parse_crop
from splat_cli.scene.read import read_scene as read_scene_folder
from splat_cli.scene.split import split
from splat_cli.scene.view import Scene, View
from splat_cli.terminal.console import Display, Level, first_of


def render_view(
    splats: SplatArrays | str | Path,
    view: View,
    *,
    background: str | Sequence[float] = (0.0, 0.0, 0.0),
    device: str = "auto",
) -> RenderedImage:
    """The picture of splats from a camera; its `pixels` are uint8 [H, W, 3].

        splats = splat.read_splats("garden.ply")
        camera = splat.View("mine", None, 640, 480, 500.0, 500.0, 320.0, 240.0, w2c=np.eye(4))
        splat.render_view(splats, camera).save("view.png")

    background: RGB, 0 to 1, or text such as "white", as in `splat render --background`. For many views of a run,
    `TrainedScene.render` keeps the splats on the device.
    """
    if not isinstance(view, View):
        raise UsageError(f"view is {view!r}: expected a View, such as one of read_scene(...).views")
    arrays = splats if isinstance(splats, SplatArrays) else read_splats(splats)
    on_device = Splats.from_arrays(shared_backend(device), arrays)
    return RenderedImage(render_image(on_device, view, color_of(background), arrays.antialiased))


def evaluate(
    splats: SplatArrays | str | Path,
    scene: Scene | str | Path,
    *,
    test_every: int = 8,
    background: str = "black",
    device: str = "auto",
) -> Scores:
    """PSNR and SSIM of splats on the scene's held-out photographs, or on every `test_every`-th.

        scores = splat.evaluate("garden.spz", "scenes/garden")
        print(scores, scores.per_image["DSC_0042.jpg"].psnr)

    background: "black" or "white". For splats of a run, `TrainedScene.evaluate` renders as in training.
    """
    if test_every < 1:
        raise UsageError(f"test_every={test_every}: expected 1 (all photographs) or more")
    arrays = splats if isinstance(splats, SplatArrays) else read_splats(splats)
    scene = scene.checked() if isinstance(scene, Scene) else read_scene_folder(scene)
    config = TrainConfig(antialias=arrays.antialiased, background=background)
    backend = shared_backend(device)
    arrays = with_origin(arrays, scene.origin)  # files of other programs may be in the scene's own coordinates
    held_out = split(scene.views, test_every, scene.test_names)[1]
    if not isinstance(splats, SplatArrays) and (seen := seen_photographs(Path(splats), held_out)):
        found = f"{splats} was trained on {len(seen):,} of the {len(held_out):,} photographs ({first_of(seen)})"
        warnings.warn(f"{found}: their scores are too good", stacklevel=2)
    photographs = load_image_set(held_out, config, backend, Display(level=Level.QUIET))
    return Scores(evaluate_images(TrainedModel(Splats.from_arrays(backend, arrays)), photographs, config))


def convert(source: str | Path, target: str | Path, **edits: Any) -> SplatArrays:
    """Write the splats of a run or a file in another format, or as a page for browsers; returns what was written.

        splat.convert("runs/garden", "garden.spz")
        splat.convert("garden.ply", "small.sog", sh_degree=1, max_splats=100_000)
        splat.convert("runs/garden", "garden.html")

    The suffixes of both names determine the formats (docs/formats.md). edits: see `Edits`, the options of `splat
    export`; crop may be text, as for --crop, and replaces the run's. UsageError, FormatError.
    """
    source, target = Path(source), Path(target)
    own_crop = edits.get("crop") is None
    if isinstance(edits.get("crop"), str):
        edits["crop"] = None if edits["crop"] == "none" else parse_crop(edits["crop"])
    known = [field.name for field in dataclasses.fields(Edits)]
    for name in edits:
        if name not in known:
            advice = name_advice(name, known, f"there are {', '.join(known)}")
            raise UsageError(f"{name!r} is not an edit; {advice}")
    out = ExportTarget(target)
    out.check()
    job = ExportJob([source], Edits(**edits), bake=not out.is_page, crop_runs=own_crop)
    write = out.writer(job) if out.is_page else write_splats  # which warns of losses
    splats = job.splats()
    for note in job.notes:
        warnings.warn(note, stacklevel=2)
    write(target, splats)
    return splats
