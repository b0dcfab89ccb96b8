"""Rebuilds the JavaScript viewer that `splat export OUT.html` packs into its pages, from pinned npm packages.

python scripts/vendor_viewer.py    # needs Node.js and npm's registry; writes splat_cli/viewer/static
"""

import json
import subprocess
import tempfile
from pathlib import Path

VERSIONS = {"@playcanvas/supersplat-viewer": "1.36.2", "playcanvas": "2.22.6", "esbuild": "0.28.2"}
SHIPPED = ("@playcanvas/supersplat-viewer", "playcanvas")
STATIC = Path(__file__).parents[1] / "splat_cli" / "viewer" / "static"
ENTRY = """
import { createViewer } from "@playcanvas/supersplat-viewer/viewer";
import { defaultPostEffectSettings } from "@playcanvas/supersplat-viewer/settings";
window.createSplatViewer = createViewer;
window.defaultPostEffects = defaultPostEffectSettings;
"""
# The engine's sorting worker looks for Node's threads where there is no browser.
OPTIONS = ("--bundle", "--minify", "--format=esm", "--target=es2022", "--external:node:worker_threads")
# What an HTML parser would act on inside <script> and <style>.
FORBIDDEN = ("</script", "<script", "<!--", "</style")


def build(folder: Path) -> None:
    """Installs and bundles in `folder`, an empty one."""
    (folder / "package.json").write_text(json.dumps({"private": True, "dependencies": VERSIONS}))
    (folder / "entry.js").write_text(ENTRY)
    subprocess.run(["npm", "install", "--no-audit", "--no-fund"], cwd=folder, check=True)
    script = "supersplat-viewer.js"
    esbuild = folder / "node_modules" / ".bin" / "esbuild"
    subprocess.run([esbuild, "entry.js", *OPTIONS, f"--outfile={script}"], cwd=folder, check=True)
    packages = folder / "node_modules"
    _keep(script, (folder / script).read_text(encoding="utf-8"))
    style = packages / "@playcanvas/supersplat-viewer" / "dist" / "viewer.css"
    _keep("supersplat-viewer.css", style.read_text(encoding="utf-8"))
    licences = [
        f"{name} {VERSIONS[name]}\n\n{(packages / name / 'LICENSE').read_text(encoding='utf-8').strip()}\n"
        for name in SHIPPED
    ]
    (STATIC / "LICENSES.txt").write_text("\n\n".join(licences), encoding="utf-8")


def _keep(name: str, text: str) -> None:
    found = [mark for mark in FORBIDDEN if mark in text.lower()]
    if found:
        raise SystemExit(f"{name} holds {found}, which a page cannot have inside")
    (STATIC / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        build(Path(temporary))
