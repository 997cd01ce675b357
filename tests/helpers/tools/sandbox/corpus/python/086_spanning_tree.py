# Connect these towns with the least cable (Kruskal with union-find), and list the connected components.
class UnionFind:
    def __init__(self, items):
        self.parent = {i: i for i in items}
        self.size = dict.fromkeys(self.parent, 1)

    def find(self, x):
        while self.parent[x] != x:
            self.parent[x] = self.parent[self.parent[x]]
            x = self.parent[x]
        return x

    def union(self, a, b):
        a, b = self.find(a), self.find(b)
        if a == b:
            return False
        if self.size[a] < self.size[b]:
            a, b = b, a
        self.parent[b] = a
        self.size[a] += self.size[b]
        return True


edges = {("Ash", "Bay"): 4.2, ("Ash", "Cove"): 8, ("Bay", "Cove"): 3.1, ("Bay", "Dale"): 7.7,
         ("Cove", "Dale"): 2.5, ("Dale", "Elm"): 6, ("Cove", "Elm"): 9.9, ("Fern", "Glen"): 1}
towns = sorted({t for e in edges for t in e})
uf = UnionFind(towns)
total = 0.0
for (a, b), cost in sorted(edges.items(), key=lambda e: e[1]):
    used = uf.union(a, b)
    total += cost if used else 0
    print(f"{a:>5} - {b:<5} {cost:>4} {'use' if used else 'skip'}")
print(f"total {total:.1f}")
groups = {}
for town in towns:
    groups.setdefault(uf.find(town), []).append(town)
print(sorted(groups.values(), key=len, reverse=True))
