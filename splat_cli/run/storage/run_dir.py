"""The output folder of a run: paths and files, in the INRIA layout where other programs read them.

Training appends to train.jsonl, one JSON entry per line.
"""

import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli import __version__
from splat_cli.config import TrainConfig
from splat_cli.config.presets import config_toml, read_settings, read_toml
from splat_cli.errors import FormatError, UsageError
from splat_cli.io.files import entries, read_error, regular, replacing
from splat_cli.io.folder_lock import require_held
from splat_cli.io.json_input import parse_json, read_json_text
from splat_cli.joint.appearance.camera_response import CameraResponse
from splat_cli.render.images import background_color
from splat_cli.run.storage.records import (
    Inputs,
    check_background,
    check_inputs,
    check_metrics,
    check_responses,
    check_result,
    check_trials,
    log_entry,
)
from splat_cli.scene.cameras_json import read_cameras, write_cameras
from splat_cli.scene.split import read_split, split
from splat_cli.scene.view import View

_MAX_LINES, _MAX_LINE = 300_000, 1 << 16
"""Maximum number of lines (training writes one per second), and of characters in a line."""


@dataclass(frozen=True)
class TrainLog:
    """Progress, warnings and times of phases, with the step of each."""

    path: Path

    def append(self, entry: Mapping[str, Any]) -> None:
        """Append a line. After an OSError, the file is unchanged if the disk allows it. FolderLost as `replacing`."""
        require_held(self.path)
        with regular(self.path).open("ab", buffering=0) as file:
            end, left = file.seek(0, os.SEEK_END), (json.dumps(entry) + "\n").encode()
            try:
                while left:
                    left = left[file.write(left) :]
            except OSError:
                file.truncate(end)
                raise

    def entries(self) -> list[dict[str, Any]]:
        """All entries, except lines that are incomplete or invalid. UnreadableError if they cannot be read now."""
        try:
            with regular(self.path).open(encoding="utf-8", errors="replace") as file:
                lines = itertools.islice(iter(lambda: file.readline(_MAX_LINE), ""), _MAX_LINES)
                return [entry for entry in map(log_entry, lines) if entry is not None]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise read_error(self.path, error) from error

    def cut(self, step: int) -> None:
        """Remove entries after `step`, and invalid lines."""
        kept = [json.dumps(line) + "\n" for line in self.entries() if line["step"] <= step]
        with replacing(self.path) as temporary:
            temporary.write_text("".join(kept), encoding="utf-8")


def sum_phases(entries: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds by phase in entries of a log, summed over all sessions that ended normally."""
    sums: dict[str, float] = {}
    for entry in entries:
        for phase, seconds in entry.get("phases", {}).items():
            sums[phase] = sums.get(phase, 0.0) + seconds
    return sums


LEGACY_DEFAULTS = {
    "local_frame_adam": False,
    "steps": 30_000,
    "field_sh_degree": 0,
    "field_features": 0,
    "relocate_unseen": False,
}
"""Values of settings for runs whose config.toml is older than the setting."""

BEGUN = ("inputs.json", "cameras.json", "split.json", "trials.json")
"""Files that a run writes, in this order, before config.toml, which makes its folder a run."""
_RECORDS = (
    *BEGUN, "config.toml", "background.json", "camera_response.json", "metrics.json", "result.json", "train.jsonl"
)  # fmt: skip

_REMOVE, _RESTORE = "remove the file", "restore it"
_TRAIN_ON = f"{_RESTORE}, or resume the run with more --steps, which writes it again"
"""Advice for lost or damaged files. Without those of the last kind, pictures and scores would differ."""


def is_record(path: Path) -> bool:
    """Whether a path, relative to a run's folder, is one of its records, checkpoints or saved splats.

    Upper and lower case count as equal, as on some file systems.
    """
    path = Path(str(path).lower())
    return str(path) in _RECORDS or path.parts[0] == "checkpoints" or path.match("point_cloud/*/point_cloud.ply")


def _every(config: TrainConfig) -> str:
    """Every how many photographs are held out, as text; 0: none."""
    return str(config.test_every if config.eval else 0)


@dataclass(frozen=True)
class RunDir:
    """Folder of one training run; files in it are written atomically."""

    path: Path

    def ply_path(self, step: int) -> Path:
        """Path of the splats after `step` steps."""
        return self.path / "point_cloud" / f"iteration_{step}" / "point_cloud.ply"

    def saved_steps(self) -> list[int]:
        """Steps with saved splats, ascending."""
        matches = (re.fullmatch(r"iteration_(\d+)", found.name) for found in entries(self.path / "point_cloud"))
        return sorted(step for match in matches if match and self.ply_path(step := int(match[1])).is_file())

    def stored_later_than(self, step: int) -> str:
        """Text that names what the run trains and has only for its last step; else, and for that step, empty."""
        config, last = self.config(), self.saved_steps()[-1]
        trained = {
            "camera poses": config.pose_opt,
            "background": config.background == "learned",
            "camera responses": config.appearance == "camera",
        }
        names = [name for name, is_trained in trained.items() if is_trained and step != last]
        return f"the {' and '.join(names)} of step {last}" if names else ""

    def unsaved_steps(self, config: TrainConfig, done: int) -> list[int]:
        """Steps of --save-at up to `done` without saved splats or, with --eval, without scores."""
        saved, scored = self.saved_steps(), self.metrics().get("steps", {})
        return [
            step
            for step in config.save_steps
            if step <= done and (step not in saved or (config.eval and str(step) not in scored))
        ]

    @property
    def config_path(self) -> Path:
        return self.path / "config.toml"

    @property
    def cameras_path(self) -> Path:
        return self.path / "cameras.json"

    @property
    def inputs_path(self) -> Path:
        """Cameras and fingerprints of the photographs, as they were when the run began."""
        return self.path / "inputs.json"

    @property
    def split_path(self) -> Path:
        """Names of training and held-out photographs, if these were selected by name."""
        return self.path / "split.json"

    @property
    def background_path(self) -> Path:
        """Background colour of renders: learned, or the mean colour of the photographs with random ones."""
        return self.path / "background.json"

    @property
    def responses_path(self) -> Path:
        """Vignetting and response of the cameras, with --appearance camera."""
        return self.path / "camera_response.json"

    @property
    def metrics_path(self) -> Path:
        return self.path / "metrics.json"

    @property
    def checkpoints_path(self) -> Path:
        return self.path / "checkpoints"

    @property
    def result_path(self) -> Path:
        return self.path / "result.json"

    @property
    def trials_path(self) -> Path:
        """Record of the trials that chose settings; absent if there were none."""
        return self.path / "trials.json"

    @property
    def report_path(self) -> Path:
        return self.path / "report.html"

    @property
    def log(self) -> TrainLog:
        """The training log, train.jsonl."""
        return TrainLog(self.path / "train.jsonl")

    def config(self) -> TrainConfig:
        """Settings of the run."""
        return TrainConfig(**{**LEGACY_DEFAULTS, **read_settings(self.config_path)})

    def provenance(self) -> dict[str, str]:
        """Table [run] of config.toml (`save_config`)."""
        table = read_toml(self.config_path).get("run")
        return {key: str(value) for key, value in table.items()} if isinstance(table, dict) else {}

    def origin(self) -> np.ndarray:
        """Origin that was subtracted from geographic coordinates, float64 [3], world units. Raises FormatError."""
        text = self.provenance().get("origin", "0,0,0")
        try:
            return np.array([float(value) for value in text.split(",")]).reshape(3)
        except ValueError:
            raise FormatError(f"{self.config_path}: origin = {text!r}: expected x,y,z") from None

    def background(self) -> tuple[float, float, float]:
        """Background colour of renders, RGB, 0 to 1: saved, or from the settings. FormatError if a learned one is lost.

        Earlier versions saved none for random ones: their renders are on black.
        """
        setting = self.config().background
        if setting != "learned" and not self.background_path.is_file():
            return background_color(setting)
        return tuple(_read_json(self.background_path, check_background, _TRAIN_ON)["color"])

    def save_background(self, color: tuple[float, float, float]) -> None:
        """Write background.json: RGB, 0 to 1."""
        _write_json(self.background_path, {"color": color})

    def responses(self) -> dict[int, CameraResponse]:
        """Vignetting and response by camera id; empty if none was trained. FormatError if they are lost or damaged."""
        if self.config().appearance != "camera":
            return {}
        cameras = _read_json(self.responses_path, check_responses, _TRAIN_ON)["cameras"]
        return {int(number): CameraResponse.from_dict(content) for number, content in cameras.items()}

    def save_responses(self, responses: dict[int, CameraResponse]) -> None:
        """Write camera_response.json, by camera id."""
        cameras = {str(number): response.to_dict() for number, response in responses.items()}
        _write_json(self.responses_path, {"cameras": cameras})

    def scene_path(self) -> Path:
        """The scene that the run was trained on; it may have moved."""
        provenance = self.provenance()
        if "scene" not in provenance:
            raise UsageError(f"{self.config_path} names no scene under [run]: name it, with --scene or as SCENE")
        return Path(provenance["scene"])

    def save_config(self, config: TrainConfig, scene: Path, device: str, origin: Iterable[float] = ()) -> None:
        """Write config.toml: all settings, and a table [run] with scene, device, version and the scene's origin.

        The table also names the file that lists the held-out photographs, or every how many are held out.
        """
        run = {"scene": str(scene.resolve()), "device": device, "version": __version__}
        if self.split_path.is_file():
            run["held_out"] = self.split_path.name
        else:
            run["held_out_every"] = _every(config)
        if any(origin := list(origin)):
            run["origin"] = ",".join(f"{value:.0f}" for value in origin)
        with replacing(self.config_path, durable=True) as temporary:
            temporary.write_text(config_toml(config, run), encoding="utf-8", errors="surrogateescape")

    def views(self, which: str) -> list[View]:
        """Views of the run by name: "all", "test" or "train"; without photographs.

        "test" views are held out by --eval; a run without --eval was also trained on them.
        """
        views, config = read_cameras(self.cameras_path), self.config()
        names = read_split(self.split_path) if self.split_path.is_file() else None
        is_named = config.split is not None or config.split_by == "sector" or "held_out" in self.provenance()
        if which != "all" and config.eval and names is None and is_named:
            raise FormatError(f"{self.split_path}, which names the held-out photographs, is missing: {_TRAIN_ON}")
        if (
            which != "all"
            and names is None
            and self.provenance().get("held_out_every", _every(config)) != _every(config)
        ):
            raise FormatError(f"{self.config_path}: eval or test_every was edited since the run began: restore them")
        train, test = split(views, config.test_every, names)
        if which == "test":
            return test
        return train if which == "train" and config.eval else views

    def save_cameras(self, views: Sequence[View], origin: Iterable[float] = ()) -> None:
        """Write cameras.json. origin: of the scene, if it has one."""
        write_cameras(self.cameras_path, views, origin)

    def inputs(self) -> Inputs:
        """Content of inputs.json; empty for runs of earlier versions."""
        found: Inputs = _read_json(self.inputs_path, check_inputs, _RESTORE, missing={}).get("views", {})
        return found

    def input_points(self) -> list[float]:
        """Summary of the scene's points (`summary_of`) in inputs.json; empty for runs of earlier versions."""
        found: list[float] = _read_json(self.inputs_path, check_inputs, _RESTORE, missing={}).get("points", [])
        return found

    def save_inputs(self, inputs: Inputs, points: Sequence[float]) -> None:
        """Write inputs.json, one line per view. points: their summary (`summary_of`)."""
        lines = (f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in inputs.items())
        with replacing(self.inputs_path, durable=True) as temporary:
            text = f'{{"points": {json.dumps(list(points))}, "views": {{\n' + ",\n".join(lines) + "\n}}\n"
            temporary.write_text(text, encoding="utf-8")

    def metrics(self) -> dict[str, Any]:
        """Content of metrics.json, empty before the first evaluation."""
        return _read_json(self.metrics_path, check_metrics, _REMOVE, missing={})

    def save_metrics(self, metrics: dict[str, Any]) -> None:
        _write_json(self.metrics_path, metrics)

    def trials(self) -> dict[str, Any]:
        """Content of trials.json (run/setup/trials.py: Trials), empty if no trials chose settings."""
        return _read_json(self.trials_path, check_trials, _REMOVE, missing={})

    def save_trials(self, trials: dict[str, Any]) -> None:
        _write_json(self.trials_path, trials)

    def result(self) -> dict[str, Any]:
        """Content of result.json (RunSummary.to_dict); empty if the run is not finished, or was continued since."""
        content = _read_json(self.result_path, check_result, _REMOVE, missing={})
        return content if content.get("steps", 0) >= max(self.saved_steps(), default=0) else {}

    def save_result(self, result: dict[str, Any]) -> None:
        _write_json(self.result_path, result)


def _read_json(
    path: Path, check: Callable[[dict[str, Any]], None], advice: str, missing: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The object in a file; if there is no file, `missing`, or FormatError if that is None.

    FormatError with `advice` if it is damaged or `check` raises ValueError; UnreadableError if it cannot be read now.
    """
    try:
        content = parse_json(read_json_text(path))
    except FileNotFoundError:
        if missing is None:
            raise FormatError(f"{path} is missing: {advice}") from None
        return missing
    except OSError as error:
        raise read_error(path, error) from error
    except ValueError as error:
        raise FormatError(f"{path} is not a JSON file ({error}); {advice}") from None
    try:
        if not isinstance(content, dict):
            raise ValueError("expected a JSON object")
        check(content)
    except ValueError as error:
        raise FormatError(f"{path} is corrupt: {error}; {advice}") from None
    return content


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with replacing(path, durable=True) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
