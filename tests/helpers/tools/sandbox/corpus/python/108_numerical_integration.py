# Integrate these functions with the trapezoid rule and Simpson's rule, and compare with the exact values.
from math import cos, e, exp, pi, sin, sqrt


def trapezoid(f, a, b, n):
    h = (b - a) / n
    return h * (f(a) / 2 + sum(f(a + i * h) for i in range(1, n)) + f(b) / 2)


def simpson(f, a, b, n):
    h = (b - a) / n
    return h / 3 * (f(a) + f(b) + sum((4 if i % 2 else 2) * f(a + i * h) for i in range(1, n)))


def adaptive(f, a, b, eps=1e-10):
    c = (a + b) / 2
    whole, halves = simpson(f, a, b, 2), simpson(f, a, c, 2) + simpson(f, c, b, 2)
    if abs(whole - halves) < 15 * eps:
        return halves + (halves - whole) / 15
    return adaptive(f, a, c, eps / 2) + adaptive(f, c, b, eps / 2)


cases = [("sin 0..π", sin, 0, pi, 2), ("e^x 0..1", exp, 0, 1, e - 1), ("x³ -1..2", lambda x: x**3, -1, 2, 3.75),
         ("1/(1+x²) 0..1", lambda x: 1 / (1 + x * x), 0, 1, pi / 4)]
print(f"{'':<15}{'exact':>10}{'trapezoid':>12}{'Simpson':>12}{'adaptive':>14}")
for name, f, a, b, exact in cases:
    print(f"{name:<15}{exact:>10.6f}{trapezoid(f, a, b, 20):>12.6f}{simpson(f, a, b, 20):>12.8f}{adaptive(f, a, b):>14.9f}")

y, t, h = 1.0, 0.0, 0.1
while t < 1 - 1e-9:
    k1 = -2 * y + cos(t)
    k2 = -2 * (y + h * k1 / 2) + cos(t + h / 2)
    k3 = -2 * (y + h * k2 / 2) + cos(t + h / 2)
    k4 = -2 * (y + h * k3) + cos(t + h)
    y, t = y + h * (k1 + 2 * k2 + 2 * k3 + k4) / 6, t + h
print(f"Runge-Kutta y(1) = {y:.7f}, exact {0.4 * cos(1) + 0.2 * sin(1) + 0.6 * exp(-2):.7f}, {sqrt(2):.3f}")
