"""Summaries of scenes, runs and files of splats."""

from collections import Counter
from pathlib import Path

import numpy as np

from splat_cli.config import SETTINGS
from splat_cli.config.presets import changed_settings
from splat_cli.errors import UsageError
from splat_cli.field.file import read_field
from splat_cli.gaussians.arrays import SplatArrays, opacities
from splat_cli.gaussians.formats import read_splats
from splat_cli.gaussians.formats.spz import stated_axes_of
from splat_cli.run.storage.find_run import find_splats, is_run, runs_in
from splat_cli.run.storage.load_run import field_path
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.extent import scene_extent
from splat_cli.scene.formats import DATASET_SUFFIXES, has_dataset
from splat_cli.scene.read import read_scene
from splat_cli.scene.view import Scene
from splat_cli.scene.zipped import is_zipped_scene, unzipped_scene
from splat_cli.terminal.console import first_of

_SHOWN = 10  # cameras and files listed
_PERCENTILES = (1, 25, 50, 75, 99)


def describe_path(path: Path, spz_axes: str) -> dict[str, str]:
    """Label -> text for a scene, run or file. UsageError, SceneError, FormatError.

    spz_axes: see read_splats.
    """
    if not path.exists():
        raise UsageError(f"{path} does not exist; name a scene, the folder of a run or a file of splats")
    if is_zipped_scene(path):
        with unzipped_scene(path) as scene:
            return {"scene": str(path)} | summarize_scene(read_scene(scene))
    if path.is_file() and path.suffix.lower() not in DATASET_SUFFIXES:
        return {"file": str(path)} | _axes(path, spz_axes) | summarize_splats(read_splats(path, spz_axes))
    if is_run(path):
        return _describe_run(RunDir(path))
    if not has_dataset(path) and (runs := runs_in(path)):
        return {"runs": str(path)} | {str(run.path.relative_to(path)): _outcome(run) for run in runs}
    return {"scene": str(path)} | summarize_scene(read_scene(path))


def _axes(path: Path, assumed: str) -> dict[str, str]:
    """Axes of an .spz file."""
    if path.suffix.lower() != ".spz":
        return {}
    stated = stated_axes_of(path)
    return {"axes": f"{stated}, as the file states" if stated else f"not stated, read as {assumed}: see --spz-axes"}


def _outcome(run: RunDir) -> str:
    """A run in one line: steps, splats, time and scores, or the step reached so far."""
    try:
        result, num_steps = run.result(), run.config().steps or 0
    except UsageError as error:
        return str(error)
    if not result:
        return f"not finished: splats of step {max(run.saved_steps(), default=0):,} of {num_steps:,}"
    score = f", PSNR {result['psnr']:.2f}, SSIM {result['ssim']:.4f}" if "psnr" in result else ""
    return f"{result['steps']:,} steps, {result['num_splats']:,} splats, {result['seconds']:.0f} s{score}"


def _describe_run(run: RunDir) -> dict[str, str]:
    config = run.config()
    steps = run.saved_steps()
    changed = ", ".join(f"{name} {SETTINGS[name].show(value)}" for name, value in changed_settings(config).items())
    rows = {
        "run": str(run.path),
        "scene": str(run.scene_path()),
        "views": f"{len(run.views('all')):,}, {len(run.views('test')) if config.eval else 0} of them held out",
        "settings": changed or "all at their defaults",
        "saved steps": ", ".join(map(str, steps)) or "none",
    }
    for step, entry in run.metrics().get("steps", {}).items():
        rows[f"step {step}"] = f"PSNR {entry['psnr']:.2f}, SSIM {entry['ssim']:.4f}"
    if not steps:
        return rows
    path = field_path(run.path)
    return rows | (_describe_field(path) if path else {}) | summarize_splats(read_splats(find_splats(run.path)[0]))


def _describe_field(path: Path) -> dict[str, str]:
    saved = read_field(path)
    of_all = "one appearance for all photographs"
    looks = f"appearances of {len(saved.names)} photographs" if saved.shape.appearance else of_all
    size = path.stat().st_size / 2**20
    return {"colour field": f"{size:.1f} MiB with its {len(saved.splats):,} splats, {looks}; it is baked into the PLY"}


def summarize_scene(scene: Scene) -> dict[str, str]:
    """Label -> text: photographs, cameras, points, extents, and what was skipped."""
    lenses = Counter((view.width, view.height, view.fx, view.fy, view.cx, view.cy) for view in scene.views)
    rows = {"found": scene.found, "photographs": f"{len(scene.views):,}", "cameras": f"{len(lenses):,}"}
    for number, (lens, count) in enumerate(lenses.most_common(_SHOWN), 1):
        width, height, fx, fy, cx, cy = lens
        rows[f"camera {number}"] = (
            f"{width:.0f}x{height:.0f}, focal length {fx:.1f} {fy:.1f}, centre {cx:.1f} {cy:.1f} pixels; "
            f"{count} photographs"
        )
    bent = sum(view.lens is not None for view in scene.views)
    if bent:
        rows["undistorted"] = f"{bent:,} photographs, as they are loaded"
    kept = sum(view.distortion is not None for view in scene.views)
    if kept:
        rows["with their lens"] = f"{kept:,} photographs are not undistorted"
    rows["points"] = f"{len(scene.points):,}"
    if len(scene.points):
        sides = np.ptp(np.percentile(scene.points, (1, 99), axis=0), axis=0)
        rows["point extent"] = " x ".join(f"{side:.4g}" for side in sides) + " world units (98 %, each axis)"
    rows["scene extent"] = f"{scene_extent(scene.views):.4g} world units (1.1 x camera radius)"
    if scene.dropped_points:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in scene.dropped_points.items())
        rows["points left out"] = reasons
    masked = sum(view.mask is not None for view in scene.views)
    if masked:
        rows["masks"] = f"{masked:,} photographs have one"
    if scene.missing_depths:
        rows["missing depth maps"] = _listed(scene.missing_depths)
    if scene.skipped:
        rows["photographs left out"] = _listed(scene.skipped)
    return rows


def _listed(lines: list[str]) -> str:
    """The number of lines and the first few."""
    return f"{len(lines):,}: {first_of(lines, _SHOWN)}"


def summarize_splats(splats: SplatArrays) -> dict[str, str]:
    """Label -> text: count, SH degree, extent, distribution of opacity and size."""
    rows = {"splats": f"{len(splats):,}", "SH degree": str(splats.sh_degree)}
    if splats.num_dropped:
        rows["left out"] = f"{splats.num_dropped:,} splats that are not finite"
    if splats.dropped_sh_degree:
        rows["SH degree"] += f", of {splats.dropped_sh_degree} in the file: the higher ones are dropped on reading"
    if any(splats.origin):
        rows["origin"] = ", ".join(f"{value:.15g}" for value in splats.origin) + " subtracted from all coordinates"
    if len(splats) == 0:
        return rows
    low, high = np.percentile(splats.means, (1, 99), axis=0)
    with np.errstate(over="ignore"):
        sizes = np.exp(splats.log_scales.astype(np.float64))
    columns = " ".join(f"{percentile:>8}%" for percentile in _PERCENTILES)
    return rows | {
        "extent": " x ".join(f"{side:.4g}" for side in high - low) + " world units (98 % of the splats, each axis)",
        "percentiles": columns,
        "opacity": _distribution(opacities(splats)),
        "largest axis": _distribution(sizes.max(axis=1)) + "  world units",
        "smallest axis": _distribution(sizes.min(axis=1)) + "  world units",
    }


def _distribution(values: np.ndarray) -> str:
    return " ".join(f"{value:>9.4g}" for value in np.percentile(values, _PERCENTILES, method="nearest"))
