"""What docs/architecture.md says about packages: each is listed, and imports only from those below."""

import re
from pathlib import Path

import pytest

from scripts.draw_packages import imported

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "splat_cli"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGES = re.findall(r"^\| `(\w+)/` \|", PAGE, re.MULTILINE)
TOP = {PACKAGE / name for name in ("__init__.py", "__main__.py", "api.py", "splats_api.py", "result.py")}
MOST_MODULES = 15  # of a folder


def test_every_package_is_listed():
    assert sorted(PACKAGES) == sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def test_every_module_outside_the_packages_is_listed():
    rows = re.findall(r"^\| (`\w+\.py`.*?) \|", PAGE, re.MULTILINE)
    listed = re.findall(r"\w+\.py", " ".join(rows))
    assert sorted(listed) == sorted(path.name for path in PACKAGE.glob("*.py") if not path.stem.startswith("__"))


@pytest.mark.parametrize("package", [*PACKAGES, ""], ids=lambda package: package or "outside")
def test_a_package_imports_only_from_below(package):
    above = set(PACKAGES[: PACKAGES.index(package)] if package else PACKAGES)
    paths = (PACKAGE / package).rglob("*.py") if package else set(PACKAGE.glob("*.py")) - TOP
    wrong = {f"{path.relative_to(ROOT)}: {name}" for path in paths for name in imported(path) & above}
    assert wrong == set()


def test_a_folder_has_few_modules():
    """One that needs more has folders of its own; `cli/` has a module a command, `formats/` one a format."""
    folders = {path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE, PACKAGE / "cli"}
    sizes = {folder: len([p for p in folder.glob("*.py") if p.stem != "__init__"]) for folder in folders}
    crowded = {str(folder.relative_to(PACKAGE)): size for folder, size in sizes.items() if size > MOST_MODULES}
    assert {name: size for name, size in crowded.items() if not name.endswith("formats")} == {}


def test_nothing_imports_the_top_layer():
    """A package that called the functions of splat_cli itself would import all packages above it."""
    top = {path.stem for path in TOP}
    wrong = {path for path in set(PACKAGE.rglob("*.py")) - TOP if imported(path) & top}
    assert wrong == set()
