# Show the difference between assignment, shallow and deep copies of nested data.
import copy

original = {"name": "A", "tags": ["x", "y"], "nested": {"n": [1, 2]}}
alias = original
shallow = copy.copy(original)
deep = copy.deepcopy(original)

original["name"] = "B"
original["tags"].append("z")
original["nested"]["n"][0] = 99
for label, value in [("alias", alias), ("shallow", shallow), ("deep", deep)]:
    print(f"{label:<8}{value}")

grid = [[0] * 3] * 2
grid[0][1] = 7
fixed = [[0] * 3 for _ in range(2)]
fixed[0][1] = 7
print(grid, fixed)

a = [1, 2, 3]
b = a[:]
b += [4]
c = a
c += [5]
print(a, b, c, a is c, a == b)

loop = [1]
loop.append(loop)
twin = copy.deepcopy(loop)
print(loop, twin[1] is twin, twin is not loop)


class Node:
    def __init__(self, v):
        self.v, self.kids = v, []

    def __deepcopy__(self, memo):
        new = Node(self.v * 10)
        new.kids = copy.deepcopy(self.kids, memo)
        return new


n = Node(1)
n.kids.append(Node(2))
m = copy.deepcopy(n)
print(m.v, m.kids[0].v, copy.copy(n).kids is n.kids)
