# Find roots with Newton's method and the secant method, and show the convergence.
import math


def newton(f, df, x, tolerance=1e-12, limit=50):
    for n in range(limit):
        step = f(x) / df(x)
        x -= step
        yield n + 1, x, abs(step)
        if abs(step) < tolerance:
            return
    raise ArithmeticError("no convergence")


def secant(f, a, b, tolerance=1e-12):
    n = 0
    while abs(b - a) > tolerance and f(b) != f(a):
        a, b, n = b, b - f(b) * (b - a) / (f(b) - f(a)), n + 1
    return b, n


for n, x, step in newton(lambda x: x * x - 2, lambda x: 2 * x, 1.0):
    print(f"{n:>2} {x:.12f} {step:.2e}")
*_, (n, x, _) = newton(lambda x: math.cos(x) - x, lambda x: -math.sin(x) - 1, 0.5)
print(f"cos x = x at {x:.12f} after {n}")
root, n = secant(lambda x: x**3 - x - 2, 1, 2)
print(f"secant {root:.10f} after {n}")
try:
    for _ in newton(lambda x: x * x + 1, lambda x: 2 * x, 0.5, limit=20):
        pass
except ArithmeticError as e:
    print("error:", e)


def derivative(f, h=1e-5):
    return lambda x: (f(x + h) - f(x - h)) / (2 * h)


print(f"{derivative(math.sin)(0):.8f} {derivative(derivative(lambda x: x**4), 1e-3)(2):.3f}")
