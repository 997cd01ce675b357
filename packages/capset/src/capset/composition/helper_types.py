"""The type of ``ctx.cap``: a protocol of an agent's helpers, as source code for type checkers (spec 1, C41)."""

from __future__ import annotations

import inspect
import keyword
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from capset.composition.compose import compose
from capset.definitions.blocks import Block
from capset.definitions.callables import inner_function

_UNKNOWN: Final = "Any"
_ANY: Final = re.compile(r"(?<![.\w])Any\b")
_DECORATOR_NAMES: Final = ("property", "overload")
"""Decorators in the generated source: properties of these names would hide them."""


def helper_types(agent: Block) -> str:
    """Return the source of a module with a protocol for ``ctx.cap``: the helpers that an agent's ``uses`` bring.

    For an agent ``notes``, annotate the context as ``Context[NotesHelpers]``. Each helper has the return type that its
    factory declares, or ``Any`` if another module cannot import that type. The module imports the types for type
    checkers only. It does not cover the helpers that dynamic ``uses`` add.
    """
    modules: set[str] = set()
    types: dict[str, str] = {}
    for capability in compose(agent).capabilities:
        if capability.helpers is not None:
            types[capability.name] = _source_of(_return_type(capability.helpers), modules)
    return "\n".join(_lines(agent.name, types, sorted(modules)))


def _lines(agent: str, types: Mapping[str, str], modules: list[str]) -> Iterator[str]:
    words = re.findall("[A-Za-z0-9]+", agent)
    name = "".join(word[:1].upper() + word[1:] for word in words) + "Helpers"
    name = name if name[0].isalpha() else f"Agent{name}"
    imports = [*(["Any"] if any(map(_ANY.search, types.values())) else []), *(["Literal"] if types else []), "Protocol"]
    imports = [*(["TYPE_CHECKING"] if modules else []), *imports, *(["overload"] if len(types) > 1 else [])]
    yield f'"""The helpers of the agent {agent}, for type checkers. Written by ``capset.ext.helper_types``."""'
    yield from ("", "from __future__ import annotations", "", f"from typing import {', '.join(imports)}", "")
    if modules:
        yield "if TYPE_CHECKING:"
        yield from (f"    import {module} as {_alias(module)}" for module in modules)
        yield ""
    yield from ("", f"class {name}(Protocol):", f'    """``ctx.cap`` of a ``Context[{name}]``."""')
    for capability, text in types.items():
        if capability.isidentifier() and not keyword.iskeyword(capability) and capability not in _DECORATOR_NAMES:
            yield from ("", "    @property", f"    def {capability}(self) -> {text}: ...")
    for capability, text in types.items():
        yield from ("", *(["    @overload"] if len(types) > 1 else []))
        yield f'    def __getitem__(self, name: Literal["{capability}"], /) -> {text}: ...'
    yield ""


def _return_type(factory: Callable[..., Any]) -> Any:
    """Return the declared return type of a factory, or ``Any``."""
    inner = inner_function(factory)
    if inspect.isclass(inner):
        return inner
    try:
        return get_type_hints(inner).get("return", Any)
    except Exception:  # an annotation may be any expression
        return Any


def _source_of(annotation: Any, modules: set[str]) -> str:
    """Return the source of a type and add its modules to ``modules``; ``Any`` if it cannot be imported elsewhere."""
    type_modules: set[str] = set()
    try:
        text = _expression(annotation, type_modules)
    except LookupError:
        return _UNKNOWN
    modules |= type_modules
    return text


def _expression(annotation: Any, modules: set[str]) -> str:
    """Return the source of a type. Raises ``LookupError`` if a part of it cannot be imported by name."""
    if annotation is Any:
        return _UNKNOWN
    if annotation is None or annotation is NoneType:
        return "None"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return " | ".join(_expression(argument, modules) for argument in arguments)
    base = annotation if origin is None else origin
    if not inspect.isclass(base) or base.__module__ == "__main__":
        raise LookupError
    imported: Any = sys.modules[base.__module__]
    for part in base.__qualname__.split("."):
        imported = getattr(imported, part, None)
    if imported is not base:  # a class defined in a function
        raise LookupError
    modules.add(base.__module__)
    parameters = f"[{', '.join(_expression(argument, modules) for argument in arguments)}]" if arguments else ""
    return f"{_alias(base.__module__)}.{base.__qualname__}{parameters}"


def _alias(module: str) -> str:
    """Return the alias of a module: it starts with an underscore, which no capability name does."""
    return f"_{module.replace('.', '_')}"
