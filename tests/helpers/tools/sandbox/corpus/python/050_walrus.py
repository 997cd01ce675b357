# Use the walrus operator where it helps: reading blocks, regex matches, comprehensions.
import io
import re

source = io.StringIO("abcdefghijklmnopqrstuvwxyz")
blocks = []
while chunk := source.read(7):
    blocks.append(chunk)
print(blocks)

for line in ["size: 10", "name=x", "color: red", ""]:
    if m := re.match(r"(\w+): (\w+)", line):
        print("colon", m.groups())
    elif m := re.match(r"(\w+)=(\w+)", line):
        print("equals", m[1], m[2])
    else:
        print("nothing in", repr(line), m)


def cost(n):
    return (n * 37) % 11


print([(n, c) for n in range(12) if (c := cost(n)) > 7])
print(any((found := n) % 7 == 0 for n in range(15, 40)), found)
total = 0
print([total := total + v for v in [3, 1, 4, 1, 5]], total)
print((y := 5) + (z := y * 2), y, z, len(text := "walrus"), text[::-1])
