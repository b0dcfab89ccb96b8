"""Evaluates lines of kernels that docs/method.md quotes, with SymPy symbols instead of numbers."""

import re
from functools import reduce
from pathlib import Path
from types import SimpleNamespace

import sympy

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "method.md"
BLOCK = re.compile(r"^```cuda\n// (\S+): (\w+)(?:, (\w+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)
DECLARATION = re.compile(r"^(?:const )?(?:vfloat[34]?|vbool|Mat3) ")


class Vec(SimpleNamespace):
    """float3 or float4 of expressions."""

    def list(self):
        return list(vars(self).values())


def vec(name, size=3):
    """Real symbols name_x, name_y, ..."""
    return Vec(**{axis: sympy.Symbol(f"{name}_{axis}", real=True) for axis in "xyzw"[:size]})


def mat(name):
    return SimpleNamespace(r0=vec(f"{name}0"), r1=vec(f"{name}1"), r2=vec(f"{name}2"))


def rows(m):
    """[3, 3] of a Mat3."""
    return sympy.Matrix([m.r0.list(), m.r1.list(), m.r2.list()])


def make_vec(x, y, z):
    return Vec(x=x, y=y, z=z)


def elementwise(f, *vectors):
    return make_vec(*(f(*values) for values in zip(*(v.list() for v in vectors), strict=True)))


def dot(a, b):
    return sum(p * q for p, q in zip(a.list(), b.list(), strict=True))


def cross(a, b):
    return make_vec(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x)


FUNCTIONS = {
    "number": sympy.Rational,
    "vfloat": lambda x: x,
    "make_vec": make_vec,
    "add": lambda *vectors: elementwise(lambda *values: sum(values), *vectors),
    "sub": lambda a, b: elementwise(lambda p, q: p - q, a, b),
    "scale": lambda factor, v: elementwise(lambda p: factor * p, v),
    "mul_elements": lambda a, b: elementwise(lambda p, q: p * q, a, b),
    "dot": dot,
    "cross": cross,
    "mul": lambda m, v: make_vec(dot(m.r0, v), dot(m.r1, v), dot(m.r2, v)),
    "mul_transposed": lambda m, v: make_vec(*(sympy.Matrix([v.list()]) * rows(m))),
    "select": lambda condition, a, b: a if condition else b,
    "vrcp": lambda x: 1 / x,
    "vmin": lambda x, limit: x,
    "ALPHA_MAX": sympy.oo,  # as without clipping
}  # fmt: skip


def blocks():
    """For each quotation: file, function, a label that is unique within the function, and its lines."""
    return [(file, function, part, text.splitlines()) for file, function, part, text in BLOCK.findall(PAGE.read_text())]


def quotation(heading, part=""):
    """The quoted code under a heading of the page."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]
    found = [
        text
        for _, function, name, text in BLOCK.findall(section)
        if part in (name, function) or (not part and not name)
    ]
    return found[0]


def function_body(file, function):
    """Source of a function of cuda_src/, without its comments."""
    source = (ROOT / "cuda_src" / file).read_text()
    return re.sub(r" *//.*", "", re.search(rf"\b{function}\(.*?^}}", source, re.MULTILINE | re.DOTALL)[0])


def evaluate(code, **variables):
    """The variables after C statements; `result` is the return value. Arrays are lists, structs are records."""
    names = {**FUNCTIONS, **variables}
    for statement in filter(None, (" ".join(s.split()) for s in code.split(";"))):
        declared = DECLARATION.match(statement)
        parts = _split(statement[declared.end() :]) if declared else [statement.replace("return ", "result = ")]
        for part in parts:
            exec(to_python(part), names)
    return SimpleNamespace(**{name: value for name, value in names.items() if name not in FUNCTIONS})


def to_python(expression):
    """A C expression or assignment."""
    exact = re.sub(r"(?<![\w.])(\d+\.\d+)f\b", r"number('\1')", expression)
    return exact.replace("[] = {", " = [").replace("}", "]")


def _split(declarators):
    """The parts of a text between commas outside of all brackets."""
    depths = reduce(lambda d, c: [*d, d[-1] + (c in "([{") - (c in ")]}")], declarators, [0])
    cuts = [k for k, c in enumerate(declarators) if c == "," and depths[k] == 0]
    return [declarators[a + 1 : b].strip() for a, b in zip([-1, *cuts], [*cuts, len(declarators)], strict=True)]


def vanishes(expression):
    """Whether a rational expression is zero, as an identity."""
    return sympy.expand(sympy.fraction(sympy.together(expression))[0]) == 0
