"""Draws the imports between packages: `python scripts/figures/draw_packages.py > docs/images/packages.svg`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "splat_cli"
_BOX, _ROW, _COLUMN, _MARGIN = (120, 34), 74, 152, 16
_STYLE = (
    "text{font:15px sans-serif;text-anchor:middle;fill:#1f2937}rect{fill:#eef2ff;stroke:#6366f1}"
    "path{fill:none;stroke:#64748b;stroke-width:1.3;marker-end:url(#tip)}"
)


def packages_svg() -> str:
    """The drawing: a box per package, importers above imported packages, and no arrow that a longer path implies."""
    packages = re.findall(r"^\| `(\w+)/` \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    imports = _without_implied({package: _imports(package, packages) for package in packages})
    level: dict[str, int] = {}
    for package in reversed(packages):
        level[package] = 1 + max((level[other] for other in imports[package]), default=-1)
    place = _places(packages, level)
    width = max(x for x, _ in place.values()) + _BOX[0] // 2 + _MARGIN
    height = max(y for _, y in place.values()) + _BOX[1] + _MARGIN
    arrows = [_arrow(place[package], place[other]) for package in packages for other in sorted(imports[package])]
    boxes = [_box(package, *place[package]) for package in packages]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    tip += '<path d="M0 0L8 4L0 8z" style="fill:#64748b;stroke:none;marker-end:none"/></marker>'
    paper = '<rect width="100%" height="100%" style="fill:white;stroke:none"/>'
    return "\n".join([head, f"<style>{_STYLE}</style>", tip, paper, *arrows, *boxes, "</svg>"]) + "\n"


def _imports(package: str, packages: list[str]) -> set[str]:
    """The other packages that modules of `package` import, also inside functions."""
    names = {name for path in (PACKAGE / package).rglob("*.py") for name in imported(path)}
    return names & set(packages) - {package}


def imported(path: Path) -> set[str]:
    """Packages and root modules that a module imports, also inside functions."""
    nodes = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom))
    modules = (node.module or "" for node in nodes)
    return {module.split(".")[1] for module in modules if module.startswith("splat_cli.")}


def _without_implied(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """The transitive reduction of an acyclic graph."""

    def reached(package: str) -> set[str]:
        return imports[package].union(*(reached(other) for other in imports[package]))

    return {
        package: {b for b in others if not any(b in reached(a) for a in others)} for package, others in imports.items()
    }


def _places(packages: list[str], level: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Package -> middle of its upper edge, pixels; packages of a level side by side, the lowest level at the bottom."""
    rows = [
        [package for package in packages if level[package] == depth] for depth in range(max(level.values()), -1, -1)
    ]
    widest = max(map(len, rows))
    left = _MARGIN + _BOX[0]  # arrows bend to the left of boxes
    return {
        package: (left + (widest - len(row)) * _COLUMN // 2 + column * _COLUMN, _MARGIN + depth * _ROW)
        for depth, row in enumerate(rows)
        for column, package in enumerate(row)
    }


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    """A curve from the lower edge of one box to the upper edge of another, to the left of boxes between them."""
    (x0, y0), (x1, y1) = (start[0], start[1] + _BOX[1]), end
    bend, aside = (y1 - y0) // 2, _BOX[0] if y1 - start[1] > _ROW else 0
    return f'<path d="M{x0} {y0}C{x0 - aside} {y0 + bend} {x1 - aside} {y1 - bend} {x1} {y1}"/>'


def _box(package: str, x: int, y: int) -> str:
    width, height = _BOX
    box = f'<rect x="{x - width // 2}" y="{y}" width="{width}" height="{height}" rx="6"/>'
    return f'{box}<text x="{x}" y="{y + height // 2 + 5}">{package}</text>'


if __name__ == "__main__":
    print(packages_svg(), end="")
