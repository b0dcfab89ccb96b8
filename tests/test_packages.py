"""What docs/architecture.md says about packages: each is listed, and imports only from those below."""

import re
from pathlib import Path

import pytest

from scripts.figures.draw_packages import imported

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "splat_cli"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGES = re.findall(r"^\| `(\w+)/` \|", PAGE, re.MULTILINE)


def test_every_package_is_listed():
    assert sorted(PACKAGES) == sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def test_no_module_is_at_the_root_but_errors():
    assert {path.stem for path in PACKAGE.glob("*.py")} == {"__init__", "__main__", "errors"}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_from_below(package):
    above = set(PACKAGES[: PACKAGES.index(package)])
    paths = (PACKAGE / package).rglob("*.py")
    wrong = {f"{path.relative_to(ROOT)}: {name}" for path in paths for name in imported(path) & above}
    assert wrong == set()
