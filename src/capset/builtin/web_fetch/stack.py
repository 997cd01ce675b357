"""The elements of a page that are open, and what is written of it so far."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

MAX_DEPTH: Final = 64
"""How many elements may be open within each other; the markup of deeper ones is left out, and their text stays."""

_BARRIERS: Final = frozenset({"table", "td", "th", "caption"})
"""No end of what is open outside of them is taken for one inside."""

_TABLE_PARTS: Final = _BARRIERS | {"tr"}


class Open:
    """A stack of elements; whatever is taken off it is ended in what is written."""

    __slots__ = ("_ends", "_out", "_over", "_starts", "names", "tags")

    def __init__(self) -> None:
        self.names: list[str] = []
        self.tags = 0
        """How many elements were written."""
        self._starts: list[str] = []
        self._ends: list[str] = []
        self._out: list[str] = []
        self._over = 0

    def write(self, html: str) -> None:
        """Add text, or elements that are complete."""
        self._out.append(html)
        self.tags += 1

    def push(self, name: str, start: str, end: str) -> bool:
        """Begin an element; return whether there is room for one more."""
        if len(self.names) >= MAX_DEPTH:
            self._over += 1
            return False
        self.names.append(name)
        self._starts.append(start)
        self._ends.append(end)
        self._out.append(start)
        self.tags += 1
        return True

    def end(self, name: str, *, again: bool) -> None:
        """End the nearest element of a name, if one is open here, and those in it; with ``again`` those begin anew."""
        if self._over:
            self._over -= 1
            return
        names = self.names
        if not names:
            return
        at = len(names) - 1
        if names[at] != name:
            crossing = name in _TABLE_PARTS
            while names[at] != name:
                if at == 0 or (names[at] in _BARRIERS and not (crossing and names[at] != "table")):
                    return
                at -= 1
        inner = list(zip(names[at + 1 :], self._starts[at + 1 :], self._ends[at + 1 :], strict=True)) if again else ()
        self._pop(at)
        for one in inner:
            self.push(*one)

    def end_nearest(self, ended: AbstractSet[str], barriers: AbstractSet[str]) -> None:
        """End the nearest open element out of some, unless one of the barriers is nearer."""
        names = self.names
        for at in range(len(names) - 1, -1, -1):
            if names[at] in ended:
                self._pop(at)
                return
            if names[at] in barriers:
                return

    def cut(self) -> str:
        """Return what is written, with what is open ended; and begin that anew."""
        piece = "".join([*self._out, *reversed(self._ends)])
        self._out = self._starts.copy()
        self.tags += len(self._starts)
        return piece

    def _pop(self, at: int) -> None:
        while len(self.names) > at:
            self.names.pop()
            start, end = self._starts.pop(), self._ends.pop()
            if start and self._out[-1] is start and not start.startswith(("<t", "<d", "<p", "<li")):
                self._out.pop()  # an empty link, or emphasis of nothing
            else:
                self._out.append(end)
