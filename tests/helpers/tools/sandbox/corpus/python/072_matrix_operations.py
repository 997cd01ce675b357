# Multiply matrices, and compute determinant, inverse and power by hand, without numpy.
def mul(a, b):
    return [[sum(x * y for x, y in zip(row, col)) for col in zip(*b)] for row in a]


def det(m):
    if len(m) == 1:
        return m[0][0]
    return sum((-1) ** j * m[0][j] * det([row[:j] + row[j + 1:] for row in m[1:]]) for j in range(len(m)))


def identity(n):
    return [[float(i == j) for j in range(n)] for i in range(n)]


def inverse(m):
    n = len(m)
    rows = [list(map(float, row)) + unit for row, unit in zip(m, identity(n))]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(rows[r][i]))
        if abs(rows[pivot][i]) < 1e-12:
            raise ZeroDivisionError("matrix is singular")
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for r in range(n):
            if r != i:
                factor = rows[r][i]
                rows[r] = [v - factor * w for v, w in zip(rows[r], rows[i])]
    return [row[n:] for row in rows]


def show(m):
    print("\n".join(" ".join(f"{v:8.3f}" for v in row) for row in m), end="\n\n")


a = [[2, -1, 0], [1, 3, 5], [4, 0, -2]]
show(mul(a, a))
print("det", det(a), "transposed", list(map(list, zip(*a))))
inv = inverse(a)
show(inv)
show([[round(v, 9) + 0.0 for v in row] for row in mul(a, inv)])
fib, power = [[1, 1], [1, 0]], [[1, 0], [0, 1]]
for _ in range(30):
    power = mul(power, fib)
print(power)
try:
    inverse([[1, 2], [2, 4]])
except ZeroDivisionError as e:
    print("error:", e)
