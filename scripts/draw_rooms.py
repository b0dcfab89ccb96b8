"""Draws docs/images/rooms.svg, the imports between packages: `python scripts/draw_rooms.py > docs/images/rooms.svg`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "splat_cli"
_BOX, _ROW, _COLUMN, _MARGIN = (120, 34), 74, 152, 16
_STYLE = (
    "text{font:15px sans-serif;text-anchor:middle;fill:#1f2937}rect{fill:#eef2ff;stroke:#6366f1}"
    "path{fill:none;stroke:#64748b;stroke-width:1.3;marker-end:url(#tip)}"
)


def rooms_svg() -> str:
    """The drawing: a box per package, importers above what they import, and no arrow that a longer path implies."""
    rooms = re.findall(r"^\| `(\w+)/` \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    imports = _without_implied({room: _imports(room, rooms) for room in rooms})
    level: dict[str, int] = {}
    for room in reversed(rooms):
        level[room] = 1 + max((level[other] for other in imports[room]), default=-1)
    place = _places(rooms, level)
    width = max(x for x, _ in place.values()) + _BOX[0] // 2 + _MARGIN
    height = max(y for _, y in place.values()) + _BOX[1] + _MARGIN
    arrows = [_arrow(place[room], place[other]) for room in rooms for other in sorted(imports[room])]
    boxes = [_box(room, *place[room]) for room in rooms]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    tip += '<path d="M0 0L8 4L0 8z" style="fill:#64748b;stroke:none;marker-end:none"/></marker>'
    paper = '<rect width="100%" height="100%" style="fill:white;stroke:none"/>'
    return "\n".join([head, f"<style>{_STYLE}</style>", tip, paper, *arrows, *boxes, "</svg>"]) + "\n"


def _imports(room: str, rooms: list[str]) -> set[str]:
    """The other packages that modules of `room` import, anywhere in them."""
    names = {name for path in (PACKAGE / room).rglob("*.py") for name in imported(path)}
    return names & set(rooms) - {room}


def imported(path: Path) -> set[str]:
    """The packages, and modules outside of them, that a module imports from anywhere in it."""
    nodes = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom))
    modules = (node.module or "" for node in nodes)
    return {module.split(".")[1] for module in modules if module.startswith("splat_cli.")}


def _without_implied(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """The transitive reduction of an acyclic graph."""

    def reached(room: str) -> set[str]:
        return imports[room].union(*(reached(other) for other in imports[room]))

    return {room: {b for b in others if not any(b in reached(a) for a in others)} for room, others in imports.items()}


def _places(rooms: list[str], level: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Room -> middle of its upper edge, pixels; rooms of a level side by side, the lowest level at the bottom."""
    rows = [[room for room in rooms if level[room] == depth] for depth in range(max(level.values()), -1, -1)]
    widest = max(map(len, rows))
    left = _MARGIN + _BOX[0] // 2
    return {
        room: (left + (widest - len(row)) * _COLUMN // 2 + column * _COLUMN, _MARGIN + depth * _ROW)
        for depth, row in enumerate(rows)
        for column, room in enumerate(row)
    }


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    """A curve from the lower edge of one box to the upper edge of another, to the left of boxes between them."""
    (x0, y0), (x1, y1) = (start[0], start[1] + _BOX[1]), end
    bend, aside = (y1 - y0) // 2, _BOX[0] if y1 - start[1] > _ROW else 0
    return f'<path d="M{x0} {y0}C{x0 - aside} {y0 + bend} {x1 - aside} {y1 - bend} {x1} {y1}"/>'


def _box(room: str, x: int, y: int) -> str:
    width, height = _BOX
    box = f'<rect x="{x - width // 2}" y="{y}" width="{width}" height="{height}" rx="6"/>'
    return f'{box}<text x="{x}" y="{y + height // 2 + 5}">{room}</text>'


if __name__ == "__main__":
    print(rooms_svg(), end="")
