"""A city to train: settings of its coarse run and of its cells, and the record of its start."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splat_cli.commands.city.plan import CellFiles, CityPlan
from splat_cli.config import SETTINGS, TrainConfig
from splat_cli.config.combinations import options_not_in_city
from splat_cli.config.presets import requested_settings
from splat_cli.data.image_budget import image_budget
from splat_cli.device import Backend
from splat_cli.errors import FormatError, UsageError
from splat_cli.gaussians.ply import count_splats
from splat_cli.io.files import replacing
from splat_cli.run.device import open_device
from splat_cli.run.plan import default_steps, lr_factor, resolve_plan, resolve_schedule
from splat_cli.run.ranks import rank_counts
from splat_cli.run.resume import other_options
from splat_cli.run.setup.memory_plan import plan_memory
from splat_cli.run.setup.training_data import warn_of_unused, with_fixed_paths
from splat_cli.run.storage.find_run import is_run, require_free
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.cameras_json import read_json
from splat_cli.scene.dataset import SceneOptions
from splat_cli.scene.read import read_scene
from splat_cli.scene.split import split_scene
from splat_cli.terminal.console import Display

_OF_CELLS: dict[str, Any] = {
    "format": "colmap",
    "images": None,
    "max_size": None,
    "downscale": 1,
    "masks": None,
    "invert_masks": False,
    "depths": "none",
    "depth_weight": None,
    "points": None,
    "min_track_length": 0,
    "max_point_error": None,
    "init": "points",
    "eval": False,
    "split": None,
    "pose_opt": False,
    "appearance": "none",
    "refine_intrinsics": False,
    "allow_implausible": True,
}
"""Settings of cells and the last pass, which read scenes of their own, with the poses and colours of the coarse run."""
_RATES = ("lr_means", "lr_means_final", "lr_scales", "lr_quats")
_NAMES = {
    "scene": "SCENE",
    "cell_steps": "--cell-steps",
    "last_steps": "--last-steps",
    "cell_splats": "--cell-splats",
}
"""Entries of a city's record that are not settings -> their names in messages."""
_OF_DEVICE = "--max-splats", "--batch", "--gpus"
_BATCHES = "coarse_batch", "last_batch"  # optional entries
_LR_EXPONENT = 2 / 3
"""Exponent of `lr_factor` for cells. It raises rates for training from points; coarse splats need to move less. The
last pass trains like a run from points."""


@dataclass(frozen=True)
class City:
    """A city to train in the folder `out`.

    cell_splats, max_splats: maximum number of splats of the city, and of those trained at a time. cell_steps,
    last_steps: of each cell, of the last pass; None: by the number of photographs. coarse_batch: batch size of the
    coarse run on one GPU; background: that of all runs, because pictures of cells are opaque. None for cities begun by
    versions that did not record these. last_batch: batch size of the last pass, None if its splats may not fit into the
    memory of one GPU.
    """

    scene: Path
    out: Path
    config: TrainConfig
    cell_splats: int
    max_splats: int
    cell_steps: int | None
    last_steps: int | None
    device: str
    cluster: str | None = None
    coarse_batch: int | None = None
    background: str | None = None
    last_batch: int | None = None

    @property
    def coarse(self) -> RunDir:
        """Run folder of the coarse run."""
        return RunDir(self.out / "coarse")

    def coarse_config(self) -> TrainConfig:
        """Settings of the coarse run on one GPU: it has the same maximum of splats as a cell."""
        config = self._within(min(self.cell_splats, self.max_splats), self.config)
        config = dataclasses.replace(config, trials=False)  # cells would not be trained with what they choose
        if config.appearance == "exposure":
            config = dataclasses.replace(config, keep=max(config.keep, 1))  # cells read the exposures from a checkpoint
        return config if self.coarse_batch is None else dataclasses.replace(config, batch=self.coarse_batch)

    def cell_config(self, plan: CityPlan, number: int | None) -> TrainConfig:
        """Settings of a cell's run, or of the last pass. Its poses are fixed and no photograph is held out."""
        files, is_last = CellFiles.of(self.out, number), number is None
        views = self.coarse.views("train") if number is None else plan.cells[number].views
        steps = (self.last_steps if is_last else self.cell_steps) or default_steps(len(views))
        factor = lr_factor(steps) ** (1 if is_last else _LR_EXPONENT)
        rates = {name: factor * getattr(self.config, name) for name in _RATES}
        noise = resolve_schedule(self.config, steps, from_splats=True)["noise_scale"]
        config = dataclasses.replace(
            self.config,
            **_OF_CELLS,
            **rates,
            noise_scale=noise / factor,  # it is multiplied by the rate of positions
            steps=steps,
            background=self.background or self.config.background,
            init_from=str(files.start),
            relocate_unseen=is_last and self.config.relocate_unseen,  # other photographs may show them
            frozen=str(files.frozen) if files.frozen.is_file() else None,
        )
        num = count_splats(files.start)
        limit = round(plan.growth * num)
        if is_last:
            limit = num if config.frozen else max(num, self.max_splats)
            config = config if config.frozen else dataclasses.replace(config, batch=self.last_batch or config.batch)
        return self._within(limit, config)

    def gpus_of_coarse_run(self) -> list[int]:
        """Numbers of GPUs, descending, on which the coarse run has the result of one GPU; 1 is left out."""
        return rank_counts(self.coarse_config()) if self.coarse_batch else []

    def gpus_of_last_pass(self) -> list[int]:
        """Numbers of GPUs, descending, on which the last pass has the result of one GPU; 1 is left out."""
        config = dataclasses.replace(self.config, **_OF_CELLS, batch=self.last_batch)
        return rank_counts(config) if self.last_batch else []

    def _within(self, max_splats: int, config: TrainConfig) -> TrainConfig:
        return dataclasses.replace(config, max_splats=max_splats, splat_budget=0.0, report=False, save_at=())


def open_city(
    scene: Path,
    out: Path,
    config: TrainConfig,
    cell_splats: int | None,
    cell_steps: int | None,
    last_steps: int | None,
    device: str,
    cluster: str | None,
    display: Display,
) -> City:
    """A new city, or the one begun in `out`. UsageError if its settings differ or are not allowed."""
    if options := options_not_in_city(config):
        raise UsageError(f"splat city does not work with {options[0]} yet: leave it out")
    warn_of_unused(config, requested_settings(config), display)
    config = with_fixed_paths(config, scene)
    record = out / "city.json"
    is_trained = any((out / name).exists() for name in ("coarse", "cells", "result.json"))
    if not ((out / "coarse").exists() or record.is_file()):
        require_free(out)
    begun = _read_record(record) if record.is_file() else None
    if not is_trained:  # settings may change
        begun = None
    asked: dict[str, Any] = {"cell_steps": cell_steps, "last_steps": last_steps}
    requested, values = _json(requested_settings(config)), _json(dataclasses.asdict(config))
    defaults = {name: values[name] for name in values.keys() - requested.keys()}
    asked |= {"scene": str(scene.resolve()), "settings": requested}
    if begun is None:
        backend = open_device(device, config, display)
        limits = _limits(scene, config, cell_splats, last_steps, backend, is_new=not is_trained)
        _write_record(record, {**asked, "defaults": dict(sorted(defaults.items())), **limits})
    else:
        if last_steps == 0:  # the last pass may be left out at any time
            del asked["last_steps"]
        _require_same(out, asked | ({"cell_splats": cell_splats} if cell_splats else {}), defaults, begun)
    city = read_city(out, device, cluster)
    if is_run(city.coarse.path) and (names := _other_than_trained(city)):  # the record was lost and written again
        raise UsageError(
            f"{city.coarse.path} was trained with another {', '.join(names)}: remove {record}, and give the same"
        )
    return dataclasses.replace(city, last_steps=0) if last_steps == 0 else city


def read_city(out: Path, device: str, cluster: str | None = None) -> City:
    """The city begun in `out`. FormatError."""
    begun = _read_record(out / "city.json")
    config = TrainConfig(**_known(begun.get("defaults", {})), **begun["settings"])
    numbers = begun["cell_splats"], begun["max_splats"], begun.get("cell_steps"), begun.get("last_steps")
    found = begun.get("coarse_batch"), begun.get("background"), begun.get("last_batch")
    return City(Path(begun["scene"]), out, config, *numbers, device, cluster, *found)


def _limits(
    scene: Path, config: TrainConfig, cell_splats: int | None, last_steps: int | None, backend: Backend, is_new: bool
) -> dict[str, int | str]:
    """Maximum number of splats per cell and in the city, batch sizes of coarse run and last pass, and background.

    The first is --cell-splats or the limit of device memory, the second --max-splats or the budget. Batch sizes must
    not depend on the number of GPUs.
    """
    read = read_scene(scene, SceneOptions.of(config))
    if any(view.distortion is not None for view in read.views):
        raise UsageError("splat city does not work with 360-degree photographs yet: give `splat train` the scene")
    train, held_out, _ = split_scene(read, config, is_new)
    budget = image_budget(backend, config, train, held_out)
    resident = budget.resident_if_streamed if budget else None
    resolved = resolve_plan(config, train, read.points, resident=resident).config
    of_last = dataclasses.replace(config, **_OF_CELLS, steps=last_steps or None, frozen=None)
    last = resolve_plan(of_last, train, read.points, resident=resident, from_splats=True).config
    beside = image_budget(backend, config, train, ())
    memory, memory_of_last = (
        plan_memory(backend, dataclasses.replace(one, offload="off", frozen=frozen), train, 0, beside)
        for one, frozen in ((resolved, ""), (last, None))
    )
    limits: dict[str, int | str] = {
        "cell_splats": cell_splats or memory.fitting_beside_frozen,  # the same number may surround the cell
        "max_splats": resolved.max_splats,
        "coarse_batch": resolved.batch_size,
        "background": resolved.background,
    }
    fits = memory_of_last.fitting >= resolved.max_splats
    return limits | ({"last_batch": last.batch_size} if fits else {})


def _write_record(path: Path, record: dict[str, Any]) -> None:
    with replacing(path, durable=True) as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _read_record(path: Path) -> dict[str, Any]:
    """The record of a city's start. FormatError."""
    advice = "remove it, and the same command continues"
    try:
        begun = read_json(path)
    except FormatError as error:
        raise FormatError(f"{error}: {advice}") from None
    limits = [None]
    if isinstance(begun, dict):
        limits = [begun.get("cell_splats"), begun.get("max_splats"), *map(begun.get, _BATCHES, (1, 1))]
    if not all(isinstance(limit, int) and limit > 0 for limit in limits) or not _has_settings(begun):
        raise FormatError(f"{path} is damaged: {advice}")
    return dict(begun)


def _has_settings(begun: dict[str, Any]) -> bool:
    """Whether this version knows the scene and settings of a record."""
    scene, settings, background = begun.get("scene"), begun.get("settings"), begun.get("background")
    is_known = background is None or background in SETTINGS["background"].choices
    is_known = is_known and isinstance(begun.get("defaults", {}), dict)
    return is_known and isinstance(scene, str) and isinstance(settings, dict) and settings.keys() <= SETTINGS.keys()


def _known(defaults: dict[str, object]) -> dict[str, Any]:
    """The recorded defaults of settings that this version has, too."""
    return {name: value for name, value in defaults.items() if name in SETTINGS}


def _require_same(
    out: Path, asked: Mapping[str, object], defaults: dict[str, object], begun: Mapping[str, object]
) -> None:
    """UsageError that names the settings changed since the city was begun.

    defaults: values of settings that are not asked for. The version that began the city may have had others.
    """
    before, now, recorded = begun["settings"], asked["settings"], begun.get("defaults", defaults)
    assert isinstance(before, dict)
    assert isinstance(now, dict)
    assert isinstance(recorded, dict)
    requested = [name for name in SETTINGS if name in before.keys() | now.keys()]
    names = [SETTINGS[name].option for name in requested if (recorded | before).get(name) != (defaults | now).get(name)]
    names += [
        f"{_NAMES[name]} ({begun.get(name)})" for name in _NAMES if name in asked and begun.get(name) != asked[name]
    ]
    if names:
        raise UsageError(f"{out} was begun with another {', '.join(names)}: give the same, or another -o")


def _other_than_trained(city: City) -> list[str]:
    """Options whose values in the coarse run are not those of the record; limits depend on free memory."""
    return [name for name in other_options(city.coarse, city.coarse_config()) if name not in _OF_DEVICE]


def _json(settings: dict[str, object]) -> dict[str, object]:
    """Settings after a round trip through JSON."""
    return dict(json.loads(json.dumps(settings)))
