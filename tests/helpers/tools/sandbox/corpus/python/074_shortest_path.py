# Find the shortest routes in this road network with Dijkstra's algorithm.
import heapq
import math

ROADS = [("A", "B", 7), ("A", "C", 9), ("A", "F", 14), ("B", "C", 10), ("B", "D", 15),
         ("C", "D", 11), ("C", "F", 2), ("D", "E", 6), ("E", "F", 9), ("X", "Y", 1)]

graph = {}
for a, b, km in ROADS:
    graph.setdefault(a, {})[b] = km
    graph.setdefault(b, {})[a] = km


def dijkstra(graph, start):
    distance = {node: math.inf for node in graph}
    distance[start] = 0
    previous, queue = {}, [(0, start)]
    while queue:
        d, node = heapq.heappop(queue)
        if d > distance[node]:
            continue
        for neighbour, km in graph[node].items():
            if (new := d + km) < distance[neighbour]:
                distance[neighbour], previous[neighbour] = new, node
                heapq.heappush(queue, (new, neighbour))
    return distance, previous


def route(previous, target):
    path = [target]
    while path[-1] in previous:
        path.append(previous[path[-1]])
    return path[::-1]


distance, previous = dijkstra(graph, "A")
for node in sorted(graph):
    d = distance[node]
    print(node, "unreachable" if d == math.inf else f"{d:>3} km  {' > '.join(route(previous, node))}")
