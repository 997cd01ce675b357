# Fit a line and a parabola to these points by least squares, with R² and predictions.
from statistics import correlation, linear_regression

xs = [1, 2, 3, 4, 5, 6, 7, 8]
ys = [2.1, 3.9, 6.2, 7.8, 10.1, 12.2, 13.8, 16.1]


def fit(xs, ys, degree):
    n = degree + 1
    a = [[sum(x ** (i + j) for x in xs) for j in range(n)] + [sum(y * x**i for x, y in zip(xs, ys))] for i in range(n)]
    for i in range(n):
        for r in range(i + 1, n):
            f = a[r][i] / a[i][i]
            a[r] = [p - f * q for p, q in zip(a[r], a[i])]
    solution = [0.0] * n
    for i in reversed(range(n)):
        solution[i] = (a[i][n] - sum(a[i][j] * solution[j] for j in range(i + 1, n))) / a[i][i]
    return solution


def r_squared(coefficients):
    mean = sum(ys) / len(ys)
    predicted = [sum(c * x**i for i, c in enumerate(coefficients)) for x in xs]
    return 1 - sum((y - p) ** 2 for y, p in zip(ys, predicted)) / sum((y - mean) ** 2 for y in ys)


line = fit(xs, ys, 1)
print(f"y = {line[1]:.4f}x + {line[0]:.4f}   R² = {r_squared(line):.6f}")
slope, intercept = linear_regression(xs, ys)
print(f"statistics says {slope:.4f} {intercept:.4f}, r = {correlation(xs, ys):.6f}")
curve = fit(xs, ys, 2)
print("parabola:", [round(c, 5) for c in curve], f"R² = {r_squared(curve):.6f}")
for x in (0, 10, 12.5):
    print(f"x={x:<5} line={line[0] + line[1] * x:7.3f} parabola={sum(c * x**i for i, c in enumerate(curve)):7.3f}")
