# In which order can these packages be built? Detect cycles too.
from graphlib import CycleError, TopologicalSorter

needs = {
    "app": {"web", "db"}, "web": {"http", "templates"}, "db": {"driver"}, "http": {"sockets"},
    "templates": set(), "driver": {"sockets"}, "sockets": set(), "docs": {"app"},
}

sorter = TopologicalSorter(needs)
sorter.prepare()
level = 0
while sorter.is_active():
    ready = sorted(sorter.get_ready())
    print(f"level {level}: {', '.join(ready)}")
    sorter.done(*ready)
    level += 1


def order(graph):
    done, result = {}, []

    def visit(node, path):
        if done.get(node) == "open":
            raise ValueError("cycle: " + " -> ".join([*path[path.index(node):], node]))
        if node in done:
            return
        done[node] = "open"
        for other in sorted(graph.get(node, ())):
            visit(other, [*path, node])
        done[node] = "closed"
        result.append(node)

    for node in sorted(graph):
        visit(node, [])
    return result


print(order(needs))
needs["sockets"] = {"app"}
try:
    order(needs)
except ValueError as e:
    print(e)
try:
    list(TopologicalSorter({"a": ["b"], "b": ["a"]}).static_order())
except CycleError as e:
    print(type(e).__name__, sorted(set(e.args[1])))
