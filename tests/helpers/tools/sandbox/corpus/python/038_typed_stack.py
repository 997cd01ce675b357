# Write a generic stack with type hints, and use NamedTuple, TypedDict, Protocol and Literal.
from __future__ import annotations

from typing import Generic, Literal, NamedTuple, Optional, Protocol, TypedDict, TypeVar, Union, runtime_checkable

T = TypeVar("T")


class Stack(Generic[T]):
    def __init__(self) -> None:
        self._items: list[T] = []

    def push(self, item: T) -> Stack[T]:
        self._items.append(item)
        return self

    def pop(self) -> Optional[T]:
        return self._items.pop() if self._items else None

    def __len__(self) -> int:
        return len(self._items)


class Point(NamedTuple):
    x: float
    y: float = 0.0

    def scaled(self, by: float) -> Point:
        return Point(self.x * by, self.y * by)


class Movie(TypedDict, total=False):
    title: str
    year: int


@runtime_checkable
class Sized2(Protocol):
    def __len__(self) -> int: ...


def clip(value: Union[int, float], mode: Literal["low", "high"] = "low") -> float:
    return max(value, 0) if mode == "low" else min(value, 1)


stack: Stack[int] = Stack()
stack.push(1).push(2).push(3)
print(stack.pop(), stack.pop(), len(stack), isinstance(stack, Sized2), bool(Stack()))
p = Point(2)
print(p, p.scaled(1.5), p._asdict(), p._replace(y=9), p == (2, 0.0), Point._fields)
movie: Movie = {"title": "Alien"}
movie["year"] = 1979
print(movie, clip(-3), clip(7, "high"))
