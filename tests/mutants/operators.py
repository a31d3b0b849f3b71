"""The small mistakes: every way to alter one operator, constant, call or statement of a source file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
CALLS = {
    **{"min": "max", "max": "min", "floor": "ceil", "ceil": "floor", "any": "all", "all": "any"},
    **{"minimum": "maximum", "maximum": "minimum", "argmin": "argmax", "argmax": "argmin"},
}
"""Functions and methods that are taken for each other."""


LARGEST = 64
"""Larger numbers limit how much is looked at; one more or less of that is no mistake."""


@dataclass(frozen=True, order=True)
class Mutant:
    """One mistake in one file.

    Attributes
    ----------
    file
        Relative to the root of the package.
    line, text
        The first that changes, and what it says.
    operator
        The sort of mistake.
    before, after
        The part of the source that is replaced, and by what.
    span
        Where that part begins and ends, in bytes of the file.
    """

    file: str
    line: int
    text: str
    operator: str
    before: str
    after: str
    span: tuple[int, int]

    def applied(self, source: str) -> str:
        """Return the source with the mistake."""
        data = source.encode()
        return (data[: self.span[0]] + self.after.encode() + data[self.span[1] :]).decode()


def mutants_of(file: str, source: str) -> list[Mutant]:
    """Return every mutant of a source file, in the order of the file."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = set()
    for node, operator, after in _changes(ast.parse(source)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        first = starts[node.lineno - 1] + node.col_offset
        last = starts[node.end_lineno - 1] + node.end_col_offset
        before = source.encode()[first:last].decode()
        if before != after:
            text = source.splitlines()[node.lineno - 1].strip()
            found.add(Mutant(file, node.lineno, text, operator, before, after, (first, last)))
    return sorted(found)


def _changes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    """Yield nodes, the sort of mistake, and the source that replaces each."""
    for node in _seen(tree):
        if isinstance(node, ast.expr):
            yield from ((node, operator, f"({ast.unparse(new)})") for operator, new in _of_expression(node))
            if isinstance(node, ast.Constant):
                yield from ((node, "constant", str(new)) for new in _of_number(node.value))
        elif isinstance(node, ast.AugAssign):
            if type(node.op) in ARITHMETIC:
                new = ast.AugAssign(node.target, ARITHMETIC[type(node.op)](), node.value)
                yield node, "arithmetic", ast.unparse(new)
            yield node, "statement", "pass"
        elif isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            yield node, "statement", "pass"
        elif isinstance(node, ast.Return) and node.value is not None:
            yield node, "return", "return None"


def _seen(node: ast.AST) -> Iterator[ast.AST]:
    """Yield every node but annotations, decorators, imports and texts, which are no steps of a check."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(
                child, ast.JoinedStr | ast.Import | ast.ImportFrom
            ):
                yield from _seen(child)


def _of_expression(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Compare):
        for index, op in enumerate(node.ops):
            for other in COMPARISONS[type(op)]:
                ops = [*node.ops[:index], other(), *node.ops[index + 1 :]]
                yield "comparison", ast.Compare(node.left, ops, node.comparators)
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        if isinstance(node.op, ast.Mult | ast.Div) and _is_sign(node.right):
            return
        yield "arithmetic", ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
    elif isinstance(node, ast.BoolOp):
        yield "and, or", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield "sign" if isinstance(node.op, ast.USub) else "not", node.operand
    elif isinstance(node, ast.Name) and node.id in CALLS:
        yield "function", ast.Name(CALLS[node.id])
    elif isinstance(node, ast.Attribute) and node.attr in CALLS:
        yield "function", ast.Attribute(node.value, CALLS[node.attr])


def _is_sign(node: ast.expr) -> bool:
    """Return whether an expression can only be 1 or −1: to multiply by it is to divide by it."""
    if isinstance(node, ast.IfExp):
        return _is_sign(node.body) and _is_sign(node.orelse)
    return ast.unparse(node) in ("1", "-1")


def _of_number(value: object) -> Iterator[int | float]:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST:
        yield from (value + 1, value - 1)
