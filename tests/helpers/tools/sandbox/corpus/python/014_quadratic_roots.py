# Solve these quadratic equations, complex roots too.
import cmath


def solve(a, b, c):
    d = cmath.sqrt(b * b - 4 * a * c)
    return (-b + d) / (2 * a), (-b - d) / (2 * a)


def show(z):
    if abs(z.imag) < 1e-12:
        return f"{z.real:.4f}"
    return f"{z.real:.4f} {'+' if z.imag > 0 else '-'} {abs(z.imag):.4f}i"


for coefficients in [(1, -3, 2), (1, 2, 5), (2, 4, 2), (1, 0, 1)]:
    r1, r2 = solve(*coefficients)
    a, b, c = coefficients
    check = max(abs(a * r * r + b * r + c) for r in (r1, r2))
    print(f"{a}x² {b:+}x {c:+} = 0  ->  {show(r1)}, {show(r2)}  ok={check < 1e-9}")

z = 3 + 4j
print(abs(z), z.conjugate(), z * 1j, z ** 2, complex("1-2j"))
r, phi = cmath.polar(1j)
print(f"{r:.1f} {phi:.6f}", f"{cmath.exp(1j * cmath.pi).real:.1f}")
