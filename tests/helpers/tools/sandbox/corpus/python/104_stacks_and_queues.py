# Check brackets with a stack, rotate a deque, and keep the last three lines of a log.
from collections import deque

PAIRS = {")": "(", "]": "[", "}": "{"}


def check(text):
    stack = []
    for i, ch in enumerate(text):
        if ch in PAIRS.values():
            stack.append((ch, i))
        elif ch in PAIRS and (not stack or stack.pop()[0] != PAIRS[ch]):
            return f"wrong {ch!r} at {i}"
    return f"open {stack[-1][0]!r} at {stack[-1][1]}" if stack else "balanced"


for text in ["{[()]}", "f(a[0], {1: (2)})", "(]", "((", "())"]:
    print(f"{text:<20}{check(text)}")

d = deque(range(5))
d.rotate(2)
d.appendleft("x")
print(d, d.pop(), d.popleft(), d.index(3), d.count(0), len(d))
last = deque(maxlen=3)
for i in range(7):
    last.append(f"line {i}")
print(list(last), last)


def window_max(values, size):
    best, out = deque(), []
    for i, v in enumerate(values):
        while best and values[best[-1]] <= v:
            best.pop()
        best.append(i)
        if best[0] <= i - size:
            best.popleft()
        if i >= size - 1:
            out.append(values[best[0]])
    return out


print(window_max([1, 3, -1, -3, 5, 3, 6, 7], 3))
people, out = deque("ABCDEFGH"), []
while people:
    people.rotate(-2)
    out.append(people.popleft())
print("".join(out))
