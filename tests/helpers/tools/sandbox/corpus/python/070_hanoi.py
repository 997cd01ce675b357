# Solve the towers of Hanoi for 3 disks step by step, and count the moves for more.
import sys


def hanoi(n, source, target, spare):
    if n == 0:
        return
    yield from hanoi(n - 1, source, spare, target)
    yield n, source, target
    yield from hanoi(n - 1, spare, target, source)


pegs = {"A": [3, 2, 1], "B": [], "C": []}
for step, (disk, source, target) in enumerate(hanoi(3, "A", "C", "B"), 1):
    assert pegs[source].pop() == disk
    pegs[target].append(disk)
    print(f"{step}. disk {disk}: {source} -> {target}   {pegs}")
print([sum(1 for _ in hanoi(n, "A", "C", "B")) for n in range(1, 11)])


def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)


print(depth(800))
try:
    depth(10**6)
except RecursionError as e:
    print("RecursionError:", str(e)[:32])
sys.setrecursionlimit(3000)
print(depth(2500))


def ackermann(m, n):
    if m == 0:
        return n + 1
    return ackermann(m - 1, 1 if n == 0 else ackermann(m, n - 1))


print(ackermann(2, 3))
