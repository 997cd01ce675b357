"""capset: the capability layer for AI agents. It defines what they can do, governs it, and records what they did."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from capset.names import *  # noqa: F403
    from capset.names import __all__ as __all__
else:
    # The first access to a name loads all of them, so that commands that need none start fast.

    def __getattr__(name: str) -> object:
        if name != "__all__" and name.startswith("_"):
            raise AttributeError(f"module 'capset' has no attribute {name!r}")
        from importlib import import_module

        names = import_module("capset.names")  # `from capset` would call this function again
        globals().update({attribute: getattr(names, attribute) for attribute in names.__all__}, __all__=names.__all__)
        try:
            return globals()[name]
        except KeyError:
            raise AttributeError(f"module 'capset' has no attribute {name!r}", name=name) from None

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
