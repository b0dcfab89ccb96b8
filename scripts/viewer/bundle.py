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
        "supersplat-viewer.js": _inside_a_page(_read(folder / "bundle.js")),
        "supersplat-viewer.css": _inside_a_page(_read(packages / SHIPPED[0] / "dist" / "viewer.css")),
        "LICENSES.txt": "\n\n".join(licences),
    }


def checksums(files: dict[str, str]) -> dict[str, str]:
    """SHA-256 of each file."""
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}


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
