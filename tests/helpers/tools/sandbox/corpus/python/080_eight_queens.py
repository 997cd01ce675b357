# Count the solutions of the n queens problem, and draw the first one for 8.
def solve(n, row=0, columns=(), down=frozenset(), up=frozenset()):
    if row == n:
        yield columns
        return
    for c in range(n):
        if c not in columns and row - c not in down and row + c not in up:
            yield from solve(n, row + 1, (*columns, c), down | {row - c}, up | {row + c})


first = next(solve(8))
print("first:", first)
for c in first:
    print(" ".join("Q" if i == c else "." for i in range(8)))
print({n: sum(1 for _ in solve(n)) for n in range(1, 8)})


def mirrored(s):
    return tuple(len(s) - 1 - c for c in s)


def rotated(s):
    return tuple(s.index(i) for i in range(len(s) - 1, -1, -1))


unique = set()
for s in solve(6):
    forms, t = [], s
    for _ in range(4):
        forms += [t, mirrored(t)]
        t = rotated(t)
    unique.add(min(forms))
print("distinct for 6:", sorted(unique))
