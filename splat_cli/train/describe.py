"""What a scene, a run or a file of splats holds, in words."""

from pathlib import Path

from splat_cli.config import SETTINGS, changed_settings
from splat_cli.errors import UsageError
from splat_cli.gaussians.formats import read_splats
from splat_cli.gaussians.summary import summarize_splats
from splat_cli.scene.read import read_scene
from splat_cli.scene.summary import summarize_scene
from splat_cli.train.run_folder import RunFolder, find_splats, is_run


def describe(path: Path) -> dict[str, str]:
    """Label -> text for whatever lies at `path`. Raises UsageError and its kin."""
    if not path.exists():
        raise UsageError(f"{path} does not exist")
    if path.is_file():
        return {"file": str(path)} | summarize_splats(read_splats(path))
    if is_run(path):
        return _describe_run(RunFolder(path))
    return {"scene": str(path)} | summarize_scene(read_scene(path))


def _describe_run(run: RunFolder) -> dict[str, str]:
    config = run.config()
    steps = run.saved_steps()
    changed = ", ".join(f"{name} {SETTINGS[name].show(value)}" for name, value in changed_settings(config).items())
    facts = {
        "run": str(run.path),
        "scene": str(run.scene_path()),
        "views": f"{len(run.views('all')):,}, of which {len(run.views('test')) if config.eval else 0} held out",
        "settings": changed or "all at their defaults",
        "saved steps": ", ".join(map(str, steps)) or "none",
    }
    for step, entry in run.metrics().get("steps", {}).items():
        facts[f"step {step}"] = f"PSNR {entry['psnr']:.2f}, SSIM {entry['ssim']:.4f}"
    return facts | summarize_splats(read_splats(find_splats(run.path)[0])) if steps else facts
