# Show the forms of f-strings that a developer needs: alignment, numbers, dates, nesting, debugging.
from datetime import date

name, n, pi, big, ratio = "Ada", 42, 3.14159265, 1234567890.5, 0.07654
print(f"[{name:<8}] [{name:>8}] [{name:^8}] [{name:*^9}] [{name!r}] [{name:.2}]")
print(f"{n:5d}|{n:<5}|{n:05}|{n:+}|{n:b}|{n:#x}|{n:o}|{n:#010b}|{-n:=+6}")
print(f"{pi:.2f} {pi:8.3f} {pi:e} {pi:.3g} {pi:g} {big:,.1f} {big:_} {big:.3e} {ratio:.1%} {ratio:%}")
width, digits = 12, 4
print(f"{pi:>{width}.{digits}f}|{name:{'>' if n > 40 else '<'}{width}}|")
print(f"{n=} {pi=:.2f} {name.upper()=} { n + 1 = }")
print(f"{date(2024, 2, 29):%d.%m.%Y} {date(2024, 2, 29)!s} {{literal}} {'nested ' + f'{n * 2}'}")
row = {"key": "value", "list": [1, 2]}
print(f"{row['key']} {row['list'][-1]} {len(row)} {'yes' if n % 2 == 0 else 'no'} {[v**2 for v in row['list']]}")
print(
    f"multi "
    f"{name}"
    " plain {name} "
    rf"\raw{n}"
)
print("{:>6}|{:<6}|{:^6}".format("a", "b", "c"), "{1} {0} {x!r}".format("p", "q", x="é"), "%s %5.1f %03d %x %%" % ("s", 2.25, 7, 255))


class Money:
    def __format__(self, spec):
        return f"€{12.5:{spec or '.2f'}}"


print(f"{Money()} {Money():.0f} {True:d} {None} {1e100:.0f}"[:40], f"{ord('é'):04x} {'日本':>4}|", f"{1e16} {1e15} {0.0001} {0.00001}")
