"""docs/architecture.md lists each package, and packages import only from packages below them."""

import ast
import re
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from scripts.figures.draw_packages import imported

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "splat_cli"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGES = re.findall(r"^\| `(\w+)/` \|", PAGE, re.MULTILINE)


def test_every_package_is_listed():
    assert sorted(PACKAGES) == sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def test_errors_is_the_only_module_at_the_root():
    assert {path.stem for path in PACKAGE.glob("*.py")} == {"__init__", "__main__", "errors"}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_from_below(package):
    above = set(PACKAGES[: PACKAGES.index(package)])
    paths = (PACKAGE / package).rglob("*.py")
    wrong = {f"{path.relative_to(ROOT)}: {name}" for path in paths for name in imported(path) & above}
    assert wrong == set()


def modules_imported_by(path):
    """Names of the package's modules that a module imports, also inside of functions or only for types."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{name.name}" for name in node.names))


def test_modules_import_each_other_in_no_circle():
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    graph = {name: set(modules_imported_by(path)) & names.keys() - {name} for name, path in names.items()}
    TopologicalSorter(graph).prepare()  # CycleError names the modules of a circle


def is_bound(node):
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def names_bound_at_the_top_of(path):
    """Constants, functions and classes of a module; a name that is bound twice is yielded twice."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (name.id for target in targets for name in ast.walk(target) if is_bound(name))


def test_no_module_binds_a_name_twice():
    """If two modules are joined, a constant of one would silently replace a constant of the other."""
    twice = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in PACKAGE.rglob("*.py")
        for name, count in Counter(names_bound_at_the_top_of(path)).items()
        if count > 1
    }
    assert twice == set()
