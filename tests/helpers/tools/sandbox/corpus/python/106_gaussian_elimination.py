# Solve this system of linear equations exactly, and say whether the solution is unique.
from fractions import Fraction


def solve(equations):
    rows = [[Fraction(v) for v in row] for row in equations]
    n, pivots, r = len(rows[0]) - 1, [], 0
    for c in range(n):
        pivot = next((i for i in range(r, len(rows)) if rows[i][c]), None)
        if pivot is None:
            continue
        rows[r], rows[pivot] = rows[pivot], rows[r]
        rows[r] = [v / rows[r][c] for v in rows[r]]
        for i, row in enumerate(rows):
            if i != r:
                rows[i] = [v - row[c] * w for v, w in zip(row, rows[r])]
        pivots.append(c)
        r += 1
    if any(not any(row[:-1]) and row[-1] for row in rows):
        return "no solution", None
    values = {c: rows[i][-1] for i, c in enumerate(pivots)}
    return ("unique" if len(pivots) == n else "many solutions"), values


systems = {
    "first": [[2, 1, -1, 8], [-3, -1, 2, -11], [-2, 1, 2, -3]],
    "fractions": [[3, 2, 1], [1, -5, "1/2"]],
    "dependent": [[1, 2, 3], [2, 4, 6]],
    "contradiction": [[1, 1, 2], [1, 1, 3]],
}
for name, system in systems.items():
    kind, values = solve(system)
    print(f"{name:<14}{kind:<15}", {f"x{k}": str(v) for k, v in values.items()} if values else "")
