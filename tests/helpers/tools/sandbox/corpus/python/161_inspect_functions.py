# Describe these functions: parameters, defaults, annotations, docs; and call them with the arguments that fit.
import functools
import inspect
from typing import get_type_hints


def area(width: float, height: float = 2.0, *, unit: str = "m") -> str:
    """Return the area.

    Longer text.
    """
    return f"{width * height} {unit}²"


def collect(first, /, *rest, sep="-", **options):
    return sep.join(map(str, (first, *rest))) + str(sorted(options.items()))


def call(func, **available):
    names = inspect.signature(func).parameters
    return func(**{k: v for k, v in available.items() if k in names})


for f in (area, collect):
    s = inspect.signature(f)
    print(f.__name__ + str(s))
    for p in s.parameters.values():
        print("  ", p.name, p.kind.name, None if p.default is p.empty else p.default)
print(get_type_hints(area), inspect.getdoc(area).splitlines()[0], area.__defaults__, area.__kwdefaults__)
print(call(area, width=3, unit="ft", color="red"), collect(1, 2, 3, sep="/", b=1, a=2))
bound = inspect.signature(area).bind(5, unit="km")
bound.apply_defaults()
print(bound.arguments, functools.partial(area, 1.5)(height=4))
for bad in (lambda: area(), lambda: area(1, 2, 3), lambda: collect(first=1), lambda: area(1, colour="x")):
    try:
        print(bad())
    except TypeError as e:
        print("TypeError:", e)
print(inspect.isfunction(area), inspect.isclass(int), inspect.isgeneratorfunction(area), callable(len), area.__code__.co_varnames)
print(sorted(n for n in dir([]) if not n.startswith("_")), [n for n in vars(type("T", (), {"x": 1})) if n == "x"])
