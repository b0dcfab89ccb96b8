"""Bundles the JavaScript viewer that `splat export OUT.html` puts into its pages.

package-lock.json in this folder pins packages and their checksums. Needs Node.js and npm's registry.

python scripts/viewer/bundle.py            # writes splat_cli/viewer/static and checksums.json
python scripts/viewer/bundle.py --check    # builds again and compares; exit code 1 if a file differs
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
STATIC = HERE.parents[1] / "splat_cli" / "viewer" / "static"
CHECKSUMS = HERE / "checksums.json"
SHIPPED = ("@playcanvas/supersplat-viewer", "playcanvas")
# Outside of a browser, the engine's sorting worker looks for Node's threads.
OPTIONS = ("--bundle", "--minify", "--format=esm", "--target=es2022", "--external:node:worker_threads")
# Text that an HTML parser would interpret inside <script> and <style>.
FORBIDDEN = ("</script", "<script", "<!--", "</style")
CHANGES = {
    # Low-pass filter of training, in the shader's unit of half a pixel: 0.1 px^2 with antialiasing, 0.3 without.
    "float detBlur = (cov[0][0] + 0.3) * (cov[1][1] + 0.3)": "float detBlur = (cov[0][0] + 0.4) * (cov[1][1] + 0.4)",
    "\tfloat diagonal1 = cov[0][0] + 0.3;": """\t#if GSPLAT_AA
\t\tfloat lowPass = 0.4;
\t#else
\t\tfloat lowPass = 1.2;
\t#endif
\tfloat diagonal1 = cov[0][0] + lowPass;""",
    "float diagonal2 = cov[1][1] + 0.3;": "float diagonal2 = cov[1][1] + lowPass;",
    # Large splats keep their size: the engine shrinks them to the window.
    "float vmin = min(1024.0, min(viewport_size.x, viewport_size.y));": "float vmin = 1e6;",
    # Beside the frame, splats are projected as at 1.3 times its edge; otherwise, some would cover the whole picture.
    "vec2 J2 = -J1 / vp.z * vp.xy;": "vec2 J2 = -J1 * clamp(vp.xy / vp.z, -frameEdge, frameEdge);",
    "\t\tfloat J1 = focal / vp.z;\n\t\tvec2 J2": """\t\tfloat J1 = focal / vp.z;
\t\tvec2 frameEdge = 1.3 / center.projMat00 * vec2(1.0, viewport_size.y / viewport_size.x);
\t\tvec2 J2""",
    # A Gaussian down to an alpha of 1/255, instead of one that falls to 0 at sqrt(8) standard deviations.
    "float clip = min(1.0, sqrt(max(0.0, log(alpha / alphaClipValue))) * 0.5);": (
        "float clip = sqrt(max(0.0, log(alpha / alphaClipValue))) * 0.5;"
    ),
    "mediump float A = dot(gaussianUV, gaussianUV);\n\tif (A > 1.0) {": (
        "mediump float A = dot(gaussianUV, gaussianUV);\n\tif (A > 1.4) {"
    ),
    "float normExp(float x) {\n\treturn (exp(x * -4.0) - EXP4) * INV_EXP4;": (
        "float normExp(float x) {\n\treturn exp(x * -4.0);"
    ),
}
"""Changes of the shader of the engine, so that it draws splats as training does."""


def build(folder: Path) -> dict[str, str]:
    """Installs and bundles in `folder`, which is empty. Returns the text of each shipped file."""
    for name in ("package.json", "package-lock.json", "entry.js"):
        shutil.copy(HERE / name, folder)
    subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, check=True)
    packages = folder / "node_modules"
    subprocess.run([packages / ".bin" / "esbuild", "entry.js", *OPTIONS, "--outfile=bundle.js"], cwd=folder, check=True)
    versions = json.loads((HERE / "package.json").read_text())["dependencies"]
    licences = [f"{name} {versions[name]}\n\n{_read(packages / name / 'LICENSE').strip()}\n" for name in SHIPPED]
    return {
        "supersplat-viewer.js": _inside_a_page(as_in_training(_read(folder / "bundle.js"))),
        "supersplat-viewer.css": _inside_a_page(_read(packages / SHIPPED[0] / "dist" / "viewer.css")),
        "LICENSES.txt": "\n\n".join(licences),
    }


def checksums(files: dict[str, str]) -> dict[str, str]:
    """SHA-256 of each file."""
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}


def as_in_training(script: str) -> str:
    """The bundle with the `CHANGES`; ends the program if their places are not in it exactly once."""
    for before, after in CHANGES.items():
        if script.count(before) != 1:
            raise SystemExit(f"the bundle contains {before!r} {script.count(before)} times, expected once")
        script = script.replace(before, after)
    return script


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _inside_a_page(text: str) -> str:
    """The text; ends the program if an HTML parser would interpret it."""
    if found := [mark for mark in FORBIDDEN if mark in text.lower()]:
        raise SystemExit(f"the bundle contains {found}, which would end or change the page around it")
    return text


def main() -> None:
    """Write the files, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare with the shipped files instead of writing them")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as temporary:
        files = build(Path(temporary))
    if check:
        differing = [name for name, text in files.items() if _read(STATIC / name) != text]
        raise SystemExit(f"not as shipped: {', '.join(differing)}" if differing else 0)
    for name, text in files.items():
        (STATIC / name).write_text(text, encoding="utf-8")
    CHECKSUMS.write_text(json.dumps(checksums(files), indent=2) + "\n")


if __name__ == "__main__":
    main()
