# Compute areas of shapes with an abstract base class, and show that it cannot be instantiated.
import math
from abc import ABC, abstractmethod


class Shape(ABC):
    @abstractmethod
    def area(self):
        ...

    @property
    @abstractmethod
    def name(self):
        """The name for people."""

    def describe(self):
        return f"{self.name:<10} area={self.area():9.3f}"


class Circle(Shape):
    name = "circle"

    def __init__(self, r):
        self.r = r

    def area(self):
        return math.pi * self.r**2


class Rectangle(Shape):
    def __init__(self, w, h):
        self.w, self.h = w, h

    @property
    def name(self):
        return "square" if self.w == self.h else "rectangle"

    def area(self):
        return self.w * self.h


class Incomplete(Shape):
    name = "incomplete"


shapes = [Circle(1.5), Rectangle(3, 4), Rectangle(2, 2)]
for shape in sorted(shapes, key=lambda s: s.area()):
    print(shape.describe())
for cls in (Shape, Incomplete):
    try:
        cls()
    except TypeError:
        print("cannot make", cls.__name__, sorted(cls.__abstractmethods__))
print(issubclass(Circle, Shape), isinstance(shapes[1], Circle))
