"""Summaries of scenes, runs and files of splats."""

from pathlib import Path

from splat_cli.config import SETTINGS
from splat_cli.config.presets import changed_settings
from splat_cli.errors import UsageError
from splat_cli.field.file import read_field
from splat_cli.gaussians.formats import read_splats
from splat_cli.gaussians.formats.spz import stated_axes_of
from splat_cli.gaussians.summary import summarize_splats
from splat_cli.run.storage.find_run import find_splats, is_run, runs_in
from splat_cli.run.storage.load_splats import field_path
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.formats import DATASET_SUFFIXES, has_dataset
from splat_cli.scene.read import read_scene
from splat_cli.scene.summary import summarize_scene
from splat_cli.scene.zipped import is_zipped_scene, unzipped_scene


def describe_path(path: Path, spz_axes: str = "RUB") -> dict[str, str]:
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
