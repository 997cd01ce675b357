"""Replacements for functions that Monty computes wrongly in silence, and refusals of code that it would misread.

Found by comparing it with CPython, function by function, at version 1.4; the tests do so again.
"""

from __future__ import annotations

import ast
from typing import Final

PRELUDE: Final = """
__round, __hasattr = round, hasattr
def round(number, ndigits=None):
    if ndigits is None or not isinstance(number, float) or number - number != 0:
        return __round(number) if ndigits is None else __round(number, ndigits)
    if ndigits >= 0:
        return float(f"{number:.{min(ndigits, 400)}f}")
    from decimal import Decimal
    upper, lower = Decimal(number).as_integer_ratio()
    step = lower * 10 ** -ndigits
    whole, rest = divmod(abs(upper), step)
    if 2 * rest > step or (2 * rest == step and whole % 2):
        whole += 1
    return float(("-" if str(number)[0] == "-" else "") + str(whole) + "e" + str(-ndigits))
def hasattr(object, name):
    if isinstance(object, (str, int, float, bytes, list, tuple, dict, set, frozenset, type(None))):
        raise NotImplementedError("hasattr of a built-in type cannot be told here; call it in a try, or test its type")
    return __hasattr(object, name)
"""
"""Run before the code, in the same namespace. Monty's ``round`` goes by the digits that a float is written with, and
its ``hasattr`` says of no built-in type that it has anything."""

_KNOWN: Final = """
    init post_init str repr eq lt le gt ge hash contains iter next getitem setitem call enter exit aenter aexit add radd
    sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow neg pos abs invert and or xor lshift rshift
    int float index doc annotations match_args
"""
"""The special names of classes, without their underscores, that Monty either honours, or fails at by a word."""
_MISSING: Final = {"lastindex": "re.Match.lastindex"}
"""Attributes that are missing, whose absence code would take for an error of its own."""


def refusal_of(code: str) -> str | None:
    """Return why code is refused, or ``None``: it would be computed wrongly in silence."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # Monty says what it cannot read
    known_names = {f"__{name}__" for name in _KNOWN.split()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _MISSING:
            return f"NotImplementedError: line {node.lineno}: {_MISSING[node.attr]} is not in this Python, a subset"
        if isinstance(node, ast.ClassDef):
            for name, line in _special_names(node):
                if name not in known_names:
                    return (
                        f"NotImplementedError: line {line}: {name} of the class {node.name} has no effect in this "
                        "Python, a subset; write an ordinary method, and call it"
                    )
    return None


def _special_names(node: ast.ClassDef) -> list[tuple[str, int]]:
    """Return the special names that the body of a class binds, each with its line."""
    bindings: list[tuple[str, int]] = []
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            bindings.append((statement.name, statement.lineno))
        elif isinstance(statement, ast.Assign):
            bindings += [(target.id, statement.lineno) for target in statement.targets if isinstance(target, ast.Name)]
    return [(name, line) for name, line in bindings if name.startswith("__") and name.endswith("__")]
