"""Single mutations of a Python module: small changes of which each should make a test fail.

Left alone is what no test should look at: annotations, decorators, docstrings, assertions, lines of the log, messages
for people, and what is only for type checkers.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, cast

_COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, tuple[str, ...]]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
_ARITHMETIC: Final[dict[type[ast.operator], tuple[str, str]]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
_OPPOSITES: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_WORD: Final = re.compile(r"[A-Za-z_][\w.:/-]*")
"""Text that a program compares, not one that people read."""
_LOGGERS: Final = frozenset({"_log", "_logger", "log", "logger", "logging", "warnings"})
_TYPING: Final = frozenset({"cast", "TypeVar", "ParamSpec", "NewType", "Literal"})


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change of one module: where, the lines before and after, and the whole text with it."""

    path: str
    line: int
    function: str
    before: str
    after: str
    text: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What names it as long as its lines stay as they are."""
        return self.path, self.function, self.before, self.after


@dataclass(frozen=True, slots=True)
class Change:
    """Some bytes of a module's text that are replaced, in which line and function."""

    start: int
    end: int
    replacement: str
    line: int
    function: str
    lines: range
    """Those of its statement, or of the head of one that holds others."""

    def of(self, path: str, text: str) -> Mutation | None:
        """Return the mutation, or ``None`` where it makes no program."""
        data = text.encode()
        other = (data[: self.start] + self.replacement.encode() + data[self.end :]).decode()
        try:
            ast.parse(other)
        except SyntaxError:
            return None
        before, after = text.splitlines(), other.splitlines()
        first = next(place for place, (old, new) in enumerate(zip(before, after, strict=False)) if old != new)
        last = 0
        while last < min(len(before), len(after)) - first - 1 and before[-1 - last] == after[-1 - last]:
            last += 1
        old, new = (" ".join(" ".join(lines[first : len(lines) - last]).split()) for lines in (before, after))
        return Mutation(path, first + 1, self.function, old, new, other)


def changes_in(text: str) -> list[Change]:
    """Return every single change of a module's text that is tried."""
    finder = _Finder(text)
    finder.visit(ast.parse(text))
    return finder.found


class _Finder(ast.NodeVisitor):
    """Collects what may be replaced, by the bytes of the nodes."""

    def __init__(self, text: str) -> None:
        self._data = text.encode()
        self._starts = [0]
        for line in self._data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._scope: list[str] = []
        self._statement = range(1, 2)
        self.found: list[Change] = []

    def visit(self, node: ast.AST) -> None:
        """Collect the changes of a node and of all inside it that counts."""
        if self._is_passed_over(node):
            return
        if isinstance(node, ast.stmt):
            body: list[ast.stmt] = getattr(node, "body", [])
            last = max(body[0].lineno - 1, node.lineno) if body else node.end_lineno or node.lineno
            self._statement = range(node.lineno, last + 1)
        for start, end, text in self._changes(node):
            line = bisect_right(self._starts, start)
            self.found.append(Change(start, end, text, line, ".".join(self._scope) or "<module>", self._statement))
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if named:
            self._scope.append(node.name)
        for child in self._inside(node):
            self.visit(child)
        if named:
            self._scope.pop()

    def _is_passed_over(self, node: ast.AST) -> bool:
        match node:
            case ast.JoinedStr() | ast.Assert() | ast.Expr(value=ast.Constant()):
                return True
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
                return name in _LOGGERS
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                return True
            case ast.Assign(targets=[ast.Name(id=name)]):
                return name in {"__slots__", "__all__"}
            case ast.Subscript(value=ast.Name(id="Literal")):
                return True
            case ast.BinOp(op=ast.BitOr()):
                return not self._scope  # the alias of a type
            case _:
                return False

    def _inside(self, node: ast.AST) -> Iterator[ast.AST]:
        for name, value in ast.iter_fields(node):
            if name in {"annotation", "returns", "decorator_list", "bases", "type"}:
                continue
            if isinstance(node, ast.Call) and name == "args" and isinstance(node.func, ast.Name):
                value = value[1:] if node.func.id in _TYPING else value  # noqa: PLW2901
            children = cast("list[object]", value if isinstance(value, list) else [value])
            yield from (child for child in children if isinstance(child, ast.AST))

    def _changes(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        match node:
            case ast.Compare(left=left, ops=ops, comparators=others):
                for (operand, other), op in zip(pairwise([left, *others]), ops, strict=True):
                    old, news = _COMPARISONS[type(op)]
                    yield from (self._between(operand, other, old, new) for new in news)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                yield self._between(left, right, *_ARITHMETIC[type(op)])
            case ast.BoolOp(op=op, values=values):
                old, new = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
                yield from (self._between(first, other, old, new) for first, other in pairwise(values))
            case ast.UnaryOp(op=ast.Not()):
                yield (*self._span(node), self._source(node).removeprefix("not").lstrip())
            case ast.Constant(value=value):
                yield from ((*self._span(node), text) for text in _other_constant(value))
            case ast.Name(id=name) if name in _OPPOSITES:
                yield (*self._span(node), _OPPOSITES[name])
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                yield from self._negated(test)
            case ast.comprehension(ifs=tests):
                for test in tests:
                    yield from self._negated(test)
            case ast.stmt():
                yield from self._of_statement(node)
            case _:
                pass

    def _of_statement(self, node: ast.stmt) -> Iterator[tuple[int, int, str]]:
        match node:
            case ast.Return(value=value):
                if isinstance(value, ast.Tuple) and len(value.elts) > 1:
                    first, other = value.elts[:2]
                    (start, end), (next_start, next_end) = self._span(first), self._span(other)
                    between = self._data[end:next_start].decode()
                    yield start, next_end, self._source(other) + between + self._source(first)
                if value is not None and not isinstance(value, ast.Constant):
                    yield (*self._span(node), "return None")
            case (
                ast.Expr(value=ast.Call() | ast.Await())
                | ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_])
                | ast.AugAssign()
                | ast.Raise()
                | ast.Delete()
                | ast.Continue()
                | ast.Break()
            ):
                yield (*self._span(node), "pass")
            case _:
                pass

    def _negated(self, test: ast.expr) -> Iterator[tuple[int, int, str]]:
        is_told = isinstance(test, ast.Compare) or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))
        if not is_told and not isinstance(test, ast.Constant):
            yield (*self._span(test), f"not ({self._source(test)})")

    def _between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> tuple[int, int, str]:
        start, end = self._span(left)[1], self._span(right)[0]
        return start, end, self._data[start:end].decode().replace(old, new, 1)

    def _source(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._span(node)
        return self._data[start:end].decode()

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )


def _other_constant(value: object) -> Iterator[str]:
    match value:
        case bool():
            yield str(not value)
        case int() | float():
            yield repr(value + 1)
        case str() if _WORD.fullmatch(value):
            yield f'"{value}x"'
        case _:
            pass
