"""Contents of the JSON files in a run's folder, validated: they may be edited or damaged."""

import math
import re
from collections.abc import Mapping
from typing import Any

from splat_cli.config import SETTINGS
from splat_cli.io.json_input import parse_json
from splat_cli.joint.appearance.camera_response import CameraResponse

Inputs = dict[str, dict[str, Any]]
"""Name of a view -> its INTRINSICS, its pose `w2c` (12 numbers, row-major), numbers of its `lens`, the number of its
`camera`, and fingerprints of its `files`. Earlier versions recorded no lens and camera.
"""
INTRINSICS = ("width", "height", "fx", "fy", "cx", "cy")
"""Numbers of a view, in pixels."""


def check_metrics(content: dict[str, Any]) -> None:
    """ValueError if metrics.json is not in the form of `updated_metrics`."""
    steps = content.get("steps", {})
    if not isinstance(steps, dict) or not isinstance(content.get("protocol", ""), str):
        raise ValueError("expected `steps`, an object, and `protocol`, a text")
    for step, entry in steps.items():
        if not (step.isascii() and step.isdecimal() and len(step) < 16 and _is_score(entry, ("per_image",))):
            raise ValueError(f"entry {step[:40]!a} of its `steps` is not a step with its psnr and ssim")
        views = entry.get("per_image", {})
        if not isinstance(views, dict) or not all(_is_score(one) for one in views.values()):
            raise ValueError(f"`per_image` of step {step} is not an object of images with their psnr and ssim")
        if len({tuple(sorted(one)) for one in views.values()}) > 1:
            raise ValueError(f"`per_image` of step {step} does not have the same measures for all images")


def check_result(content: dict[str, Any]) -> None:
    """ValueError if result.json is not in the form of `RunSummary.to_dict`; empty: not finished."""
    if not content:
        return
    needed = ["steps", "num_splats", "seconds", *(key for key in ("psnr", "ssim") if content.keys() & {"psnr", "ssim"})]
    if not all(_is_number(content.get(key)) for key in needed):
        raise ValueError(f"expected numbers: {', '.join(needed)}")


def check_trials(content: dict[str, Any]) -> None:
    """ValueError if trials.json is not in the form of `Trials` (run/setup/trials.py); empty: no trials."""
    if not content:
        return
    trials, chosen = content.get("trials"), content.get("chosen")
    numbers = dict(chosen) if isinstance(chosen, dict) else {}
    known = numbers.pop("appearance", "exposure") == "exposure" and all(map(_is_number, numbers.values()))
    if not known or not {"steps"} <= numbers.keys() <= {"steps", "free_space", "dropout", "splat_budget"}:
        raise ValueError(
            "expected `chosen`, an object of numbers: steps, perhaps free_space, dropout, splat_budget; perhaps with "
            'appearance "exposure"'
        )
    keys = ("steps", "free_space", "psnr")
    if not isinstance(trials, list) or not all(
        isinstance(one, dict)
        and all(_is_number(one.get(key)) for key in keys)
        and one.get("appearance", "none") in ("none", "exposure")
        for one in trials
    ):
        raise ValueError(f"expected `trials`, a list of objects with the numbers {', '.join(keys)}")


def as_options(settings: Mapping[str, Any]) -> str:
    """Settings, numbers or names, as on the command line."""
    shown = {name: value if isinstance(value, str) else f"{value:g}" for name, value in settings.items()}
    return " ".join(f"{SETTINGS[name].option} {value}" for name, value in shown.items())


def trial_options(trial: Mapping[str, Any]) -> str:
    """Settings of a trial that differ from the default, as on the command line."""
    return as_options(
        {name: trial[name] for name in ("free_space", "appearance") if trial.get(name, 0) not in (0, "none")}
    )


def check_inputs(content: dict[str, Any]) -> None:
    """ValueError unless `views` of inputs.json is a valid `Inputs`, and `points` a summary of points or missing."""
    views, points = content.get("views", {}), content.get("points", [])
    if not isinstance(views, dict) or not all(map(_is_input, views.values())):
        raise ValueError("expected `views`, an object of views with their intrinsics, w2c and files")
    if not isinstance(points, list) or len(points) not in (0, 5) or not all(map(_is_finite, points)):
        raise ValueError("expected `points`, five numbers")


def check_background(content: dict[str, Any]) -> None:
    """ValueError unless background.json has a `color` of three numbers from 0 to 1."""
    color = content.get("color")
    if content and not (isinstance(color, list) and len(color) == 3 and all(_is_share(value) for value in color)):
        raise ValueError("expected `color`, three numbers from 0 to 1")


def check_responses(content: dict[str, Any]) -> None:
    """ValueError unless `cameras` of camera_response.json maps ids to objects of `CameraResponse.to_dict`."""
    cameras = content.get("cameras", {})
    if not isinstance(cameras, dict) or not all(re.fullmatch("[0-9]{1,18}", number) for number in cameras):
        raise ValueError("expected `cameras`, an object of cameras by their ids")
    for camera in cameras.values():
        CameraResponse.from_dict(camera)


def log_entry(line: str) -> dict[str, Any] | None:
    """The entry in a line of train.jsonl; None if it is not in the form of `RunLog`."""
    try:
        entry = parse_json(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("step"), int) or not 0 <= entry["step"] < 2**53:
        return None
    phases, warning = entry.get("phases", {}), entry.get("warning", "")
    values = [value for key, value in entry.items() if key not in ("phases", "warning") and value is not None]
    numbers = [*values, *(phases.values() if isinstance(phases, dict) else ["none"])]
    return entry if isinstance(warning, str) and all(map(_is_number, numbers)) else None


def _is_number(value: Any) -> bool:
    """Whether a value is a number. NaN and infinity count, because losses and PSNRs may be non-finite."""
    return isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63)


def _is_finite(value: Any) -> bool:
    return _is_number(value) and math.isfinite(value)


def _is_share(value: Any) -> bool:
    return _is_finite(value) and 0 <= value <= 1


def _is_input(entry: Any) -> bool:
    """Whether an entry of inputs.json has finite numbers, and strings in its `files`."""
    if not isinstance(entry, dict) or not isinstance(entry.get("w2c"), list) or len(entry["w2c"]) != 12:
        return False
    lens, files = entry.get("lens", []), entry.get("files")
    numbers = [*entry["w2c"], *(entry.get(name) for name in INTRINSICS), entry.get("camera", 0)]
    return (
        isinstance(lens, list)
        and all(map(_is_finite, [*numbers, *lens]))
        and isinstance(files, dict)
        and all(isinstance(value, str) for value in files.values())
    )


def _is_score(entry: Any, excluded: tuple[str, ...] = ()) -> bool:
    """Whether an entry has PSNR and SSIM and all its values, apart from `excluded` keys, are finite numbers."""
    if not isinstance(entry, dict) or not {"psnr", "ssim"} <= entry.keys():
        return False
    return all(_is_number(value) and abs(value) < 1e30 for key, value in entry.items() if key not in excluded)
