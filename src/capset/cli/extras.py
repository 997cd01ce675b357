"""Extras that a command needs."""

from __future__ import annotations

from importlib.util import find_spec

from capset.errors import DefinitionError


def needs_extra(extra: str, *modules: str) -> None:
    """Raise ``DefinitionError``, saying how to install it, if a module of an extra is missing."""
    if missing_modules(*modules):
        raise DefinitionError(
            f"this needs the extra {extra!r}, which is not installed", hint=f"pip install 'capset[{extra}]'"
        )


def missing_modules(*modules: str) -> list[str]:
    """Return those of the modules that are not installed."""
    return [module for module in modules if not _is_there(module)]


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it would be in
        return False
