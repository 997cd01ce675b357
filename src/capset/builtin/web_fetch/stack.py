"""The elements of a page that are open, and what is written of it so far."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

MAX_DEPTH: Final = 64
"""How many elements may be open within each other; the markup of deeper ones is left out, and their text stays."""

_BARRIERS: Final = frozenset({"table", "td", "th", "caption"})
"""No end of what is open outside of them is taken for one inside."""

_TABLE: Final = frozenset({"table"})
_TABLE_PARTS: Final = _BARRIERS | {"tr"}


class Element(NamedTuple):
    """What is written for an element."""

    start: str
    end: str
    droppable: bool = False
    """Whether one with nothing in it is left out."""


NOTHING: Final = Element("", "")


class Open:
    """A stack of elements; whatever is taken off it is ended in what is written."""

    __slots__ = ("_elements", "_over", "names", "out")

    def __init__(self) -> None:
        self.names: list[str] = []
        self.out: list[str] = []
        """What is written, in order: text and tags."""
        self._elements: list[Element] = []
        self._over = 0

    def push(self, name: str, element: Element) -> bool:
        """Begin an element; return whether there is room for one more."""
        if len(self.names) >= MAX_DEPTH:
            self._over += 1
            return False
        self.names.append(name)
        self._elements.append(element)
        self.out.append(element.start)
        return True

    def end(self, name: str, *, again: bool) -> None:
        """End the nearest element of a name, if one is open here, and those in it; with ``again`` those begin anew."""
        names = self.names
        if self._over:
            self._over -= 1
        elif names and names[-1] == name:
            names.pop()
            element = self._elements.pop()
            if element.droppable and self.out[-1] is element.start:
                self.out.pop()
            else:
                self.out.append(element.end)
        elif name in names:
            self._end_outer(name, again=again)

    def _end_outer(self, name: str, *, again: bool) -> None:
        names = self.names
        at = len(names) - 1
        stops = _BARRIERS if name not in _TABLE_PARTS else _TABLE
        while names[at] != name:
            if names[at] in stops:
                return
            at -= 1
        inner = list(zip(names[at + 1 :], self._elements[at + 1 :], strict=True)) if again else ()
        self._pop(at)
        for one in inner:
            self.push(*one)

    def end_nearest(self, ended: AbstractSet[str], barriers: AbstractSet[str]) -> None:
        """End the nearest open element out of some, unless one of the barriers is nearer."""
        names = self.names
        if ended.isdisjoint(names):
            return
        for at in range(len(names) - 1, -1, -1):
            name = names[at]
            if name in ended:
                self._pop(at)
                return
            if name in barriers:
                return

    def cut(self) -> str:
        """Return what is written, with what is open ended; and begin that anew."""
        piece = "".join([*self.out, *(element.end for element in reversed(self._elements))])
        self.out[:] = [element.start for element in self._elements]
        return piece

    def _pop(self, at: int) -> None:
        while len(self.names) > at:
            self.end(self.names[-1], again=False)
