"""Code in pages and notebooks, run as a reader would run it."""

import ast
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def python_blocks(page: str) -> list[str]:
    """The Python code blocks of a page, in order."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def notebook_cells(notebook: str) -> list[str]:
    """The source of the notebook's code cells, in order."""
    cells = json.loads((ROOT / notebook).read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run_cell(source: str, names: dict) -> object:
    """Runs the code with the variables `names`; if the last line is an expression, returns its value."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names) if last else None
