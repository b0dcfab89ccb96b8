"""Implementation of `splat compare`: runs on the same held-out photographs, in one table and on one page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.device import Backend
from splat_cli.errors import UsageError
from splat_cli.eval.evaluate import TrainedModel, evaluate
from splat_cli.eval.held_out_fit import has_appearances
from splat_cli.eval.metrics import Lpips, Score, has_flip, mean_score
from splat_cli.io.files import replacing
from splat_cli.report.comparison_page import ComparedPicture, comparison_page
from splat_cli.report.markup import shown
from splat_cli.report.page import refuse_other_file
from splat_cli.run.storage.find_run import find_splats, open_run
from splat_cli.run.storage.load_run import load_model, load_run_images
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.terminal.console import Display

NUM_PICTURES = 12  # number of photographs on the page: those on which the runs differ most


@dataclass(frozen=True)
class ComparedRun:
    """Scores of a run by photograph, and, for a page, renders as data URLs.

    seconds: training time, None if the run is not finished.
    """

    name: str
    run: RunDir
    scores: dict[str, Score]
    renders: dict[str, str]
    num_splats: int
    seconds: float | None

    @property
    def mean(self) -> Score:
        """The mean over photographs of each measure."""
        return mean_score(self.scores.values())

    def to_dict(self) -> dict[str, Any]:
        """The entry of `--json`."""
        per_image = {name: score.to_dict() for name, score in self.scores.items()}
        facts = {"num_splats": self.num_splats, "seconds": self.seconds, "per_image": per_image}
        return {"run": str(self.run.path), **self.mean.to_dict(), **facts}


def compare_runs(
    paths: Sequence[Path],
    scene: Path | None,
    backend: Backend,
    display: Display,
    page: Path | None,
    lpips: str | None,
) -> list[ComparedRun]:
    """Evaluate the last splats of each run on the held-out photographs, which all runs share; write the page.

    scene: folder of the photographs, by default as in training. lpips: also LPIPS with this network. UsageError if two
    runs cannot be compared.
    """
    runs = [open_run(path) for path in paths]
    _check_runs(runs)
    if page is not None:
        refuse_other_file(page)
    distance = None if lpips is None else Lpips(lpips)
    names = _distinct_names([run.path for run in runs])
    first: ImageSet | None = None
    compared = []
    for run, name in zip(runs, names, strict=True):
        photographs = load_run_images(run, run.views("test"), scene, backend, display)
        if first is None:
            first = photographs
        else:
            _check_photographs(names[0], first, name, photographs)
        compared.append(_evaluated(run, name, photographs, backend, display, distance, for_page=page is not None))
    assert first is not None
    if page is not None:
        with replacing(page) as temporary:
            temporary.write_text(comparison_page(compared, _pictures(compared, first)), encoding="utf-8")
    return compared


def _check_runs(runs: Sequence[RunDir]) -> None:
    """UsageError if held-out photographs, their size or the measures of the runs differ."""
    if len(runs) < 2:
        raise UsageError("one run alone cannot be compared: name two or more")
    first, wanted = runs[0], {view.name: view for view in runs[0].views("test")}
    for run in runs:
        if not run.config().eval:
            raise UsageError(f"{run.path} held out no photographs: train it with --eval")
        if has_appearances(run.config()) != has_appearances(first.config()):
            raise UsageError(
                f"{run.path} and {first.path} are scored on different parts of photographs: only one of them has "
                "--field-appearance"
            )
        found = {view.name: view for view in run.views("test")}
        if others := sorted(found.keys() ^ wanted.keys()):
            owner = run.path if others[0] in found else first.path
            raise UsageError(
                f"{run.path} and {first.path} held out different photographs: {others[0]} only in {owner}; train them "
                "with the same --split or --test-every"
            )
        for name, view in found.items():
            sizes = [(one.width, one.height) for one in (view, wanted[name])]
            if sizes[0] != sizes[1]:
                (width, height), (other_width, other_height) = sizes
                raise UsageError(
                    f"{name} has {width}x{height} pixels in {run.path} and {other_width}x{other_height} in "
                    f"{first.path}: train them with the same --downscale and --max-size"
                )


def _check_photographs(first_name: str, first: ImageSet, name: str, photographs: ImageSet) -> None:
    """UsageError unless both runs are scored on the same pixels."""
    before = {view.name: index for index, view in enumerate(first.views)}
    if missing := sorted(before.keys() ^ {view.name for view in photographs.views}):
        raise UsageError(f"{missing[0]} can be read for one of {first_name} and {name} only: restore the file")
    for index, view in enumerate(photographs.views):
        if not _is_same_mask(photographs.masks[index], first.masks[before[view.name]]):
            raise UsageError(
                f"{view.name} has another mask for {name} than for {first_name}: train them with the same --masks"
            )
        if not np.array_equal(photographs.images[index], first.images[before[view.name]]):
            raise UsageError(
                f"{view.name} shows other pixels for {name} than for {first_name}: another scene, lens or background"
            )


def _is_same_mask(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    """Whether two masks select the same pixels; None selects all."""
    if one is None or other is None:
        return one is other
    return np.array_equal(one > 0, other > 0)


def _distinct_names(paths: Sequence[Path]) -> list[str]:
    """Names of the folders, or whole paths if two are the same."""
    names = [path.resolve().name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def _evaluated(
    run: RunDir,
    name: str,
    photographs: ImageSet,
    backend: Backend,
    display: Display,
    lpips: Lpips | None,
    *,
    for_page: bool,
) -> ComparedRun:
    """Scores of a run. for_page: with its renders."""
    splats, field = load_model(find_splats(run.path)[0], backend)
    renders: dict[str, str] = {}
    with display.counting(f"views of {name}", len(photographs.views)) as count:

        def on_render(index: int, render: np.ndarray) -> None:
            if for_page:
                renders[photographs.views[index].name] = shown(render)
            count(1)

        model = TrainedModel(splats, field, run.background(), run.responses())
        scores = evaluate(model, photographs, run.config(), on_render=on_render, with_flip=has_flip(), lpips=lpips)
    return ComparedRun(name, run, scores, renders, splats.num, run.result().get("seconds"))


def _pictures(compared: Sequence[ComparedRun], photographs: ImageSet) -> list[ComparedPicture]:
    """The photographs on which the runs differ most, with all renders."""
    spread = {name: np.ptp([run.scores[name].psnr for run in compared]) for name in compared[0].scores}
    chosen = sorted(spread, key=lambda name: -spread[name])[:NUM_PICTURES]
    index = {view.name: number for number, view in enumerate(photographs.views)}
    return [
        ComparedPicture(
            photographs.views[index[name]],
            shown(photographs.images[index[name]]),
            [run.renders[name] for run in compared],
            [run.scores[name] for run in compared],
        )
        for name in chosen
    ]
