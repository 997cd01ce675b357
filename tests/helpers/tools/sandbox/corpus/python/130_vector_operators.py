# Write a Vector class with all the operators one expects, comparison and hashing included.
import math
from functools import total_ordering


@total_ordering
class Vector:
    def __init__(self, *parts):
        self.parts = tuple(parts)

    def __repr__(self):
        return f"Vector({', '.join(map(str, self.parts))})"

    def __add__(self, other):
        if not isinstance(other, Vector):
            return NotImplemented
        return Vector(*(a + b for a, b in zip(self.parts, other.parts)))

    def __radd__(self, other):
        return self if other == 0 else NotImplemented

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return self + -other

    def __mul__(self, k):
        return Vector(*(a * k for a in self.parts))

    __rmul__ = __mul__

    def __matmul__(self, other):
        return sum(a * b for a, b in zip(self.parts, other.parts))

    def __abs__(self):
        return math.hypot(*self.parts)

    def __eq__(self, other):
        return isinstance(other, Vector) and self.parts == other.parts

    def __lt__(self, other):
        return abs(self) < abs(other)

    def __hash__(self):
        return hash(self.parts)
    def __getitem__(self, i):
        return Vector(*self.parts[i]) if isinstance(i, slice) else self.parts[i]


a, b = Vector(1, 2, 2), Vector(3, 0, 4)
print(a + b, b - a, -a, a * 2, 0.5 * b, a @ b, abs(a), sum([a, b, a]))
print(a < b, a >= b, a == Vector(1, 2, 2), a != b, len({a, Vector(1, 2, 2), b}), max(a, b), sorted([b, a]))
a += b
print(a, a[0], a[-1], a[:2], list(a), 6 in a, [*a[::2]])
for bad in (lambda: a + 1, lambda: 1 + a, lambda: a[9]):
    try:
        bad()
    except (TypeError, IndexError) as e:
        print(type(e).__name__, e)
