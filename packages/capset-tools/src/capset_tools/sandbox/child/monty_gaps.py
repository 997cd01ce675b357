"""Replacements for functions that Monty silently computes wrongly, and refusals of code that it would misread.

They were found by comparing Monty 1.4 with CPython, function by function; the tests repeat the comparison.
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
"""Code that runs before the model's, in the same namespace. Monty's ``round`` rounds the written digits of a float, and
its ``hasattr`` is false for every attribute of a built-in type."""

_KNOWN: Final = """
    init post_init str repr eq lt le gt ge hash contains iter next getitem setitem call enter exit aenter aexit add radd
    sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow neg pos abs invert and or xor lshift rshift
    int float index doc annotations match_args
"""
"""Special names of classes, without their underscores, that Monty either supports or rejects with an error."""
_MISSING: Final = {"lastindex": "re.Match.lastindex"}
"""Attributes that Monty lacks, and whose absence would look like an error in the code."""


def refusal_of(code: str) -> str | None:
    """Return why code is refused, or ``None``. Refused code would silently compute wrong results."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # Monty reports what it cannot parse
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
