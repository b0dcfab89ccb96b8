"""Mutants of a Python module: copies of its source with one operator, number, condition or call changed."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
LAUNCH_SHAPE = re.compile(r"(THREADS|WARPS|BLOCKS)\b")
SWAPPED = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}


@dataclass(frozen=True)
class Mutant:
    """One change: its line, the code before and after, and the whole source with it."""

    line: int
    before: str
    after: str
    source: str


def mutants_of(source: str) -> list[Mutant]:
    """All mutants of a module's source."""
    tree = ast.parse(source)
    skipped = {id(node) for root in _unchanged(tree) for node in ast.walk(root)}
    mutants = []
    for index, node in enumerate(ast.walk(tree)):
        if id(node) in skipped or not isinstance(node, ast.expr | ast.stmt):
            continue
        for change in _changes(node):
            changed = copy.deepcopy(tree)
            target = next(one for number, one in enumerate(ast.walk(changed)) if number == index)
            before = ast.unparse(target)
            after = ast.unparse(change(target))
            mutants.append(Mutant(node.lineno, _short(before), _short(after), ast.unparse(changed)))
    return mutants


def _unchanged(tree: ast.Module) -> Iterator[ast.AST]:
    """Parts with useless mutants: annotations, decorators, docstrings, error messages, launch shapes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield from filter(None, [node.returns, *(arg.annotation for arg in node.args.args), *node.decorator_list])
        elif isinstance(node, ast.AnnAssign):
            yield node.annotation
        elif isinstance(node, ast.ClassDef):
            yield from node.decorator_list
        elif isinstance(node, ast.Assign) and LAUNCH_SHAPE.search(ast.unparse(node.targets[0])):
            yield node  # these change the time of kernels, but not their results
        elif isinstance(node, ast.Raise) and node.exc is not None:
            yield node.exc
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node


def _changes(node: ast.AST) -> Iterator[Callable[[ast.AST], ast.AST]]:
    """Functions that change a copy of the node in place and return its replacement."""

    def having(**fields: object) -> Callable[[ast.AST], ast.AST]:
        def change(target: ast.AST) -> ast.AST:
            for name, value in fields.items():
                setattr(target, name, value)
            return target

        return change

    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            yield having(ops=[COMPARISONS[type(op)]()])
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in OPERATORS:
            yield having(op=OPERATORS[type(op)]())
        case ast.BoolOp(op=op):
            yield having(op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield having(op=ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not(), operand=_plain(node))
        case ast.Constant(value=bool() as value):
            yield having(value=not value)
        case ast.Constant(value=int() | float() as value):
            yield having(value=value + 1 if isinstance(value, int) else 2 * value + (value == 0))
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield having(test=ast.UnaryOp(ast.Not(), test))
        case ast.Call(func=ast.Name(id=name)) if name in SWAPPED:
            yield having(func=ast.Name(SWAPPED[name], ast.Load()))
        case ast.Call(func=ast.Attribute(attr=name, value=value)) if name in SWAPPED:
            yield having(func=ast.Attribute(value, SWAPPED[name], ast.Load()))
        case ast.Expr(value=ast.Call()):
            yield having(value=ast.Constant(None))
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield having(value=ast.Constant(None))


def _plain(node: ast.UnaryOp) -> ast.expr:
    """The operand. For `not`, it is negated again, which cancels the outer `not`."""
    return ast.UnaryOp(ast.Not(), node.operand) if isinstance(node.op, ast.Not) else node.operand


def _short(text: str) -> str:
    return text.splitlines()[0][:90]
