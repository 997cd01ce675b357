# Find the shortest way through this maze with breadth-first search and draw it.
from collections import deque

MAZE = """
#########
#S..#...#
#.#.#.#.#
#.#...#.#
#.#####.#
#......E#
#########
""".strip().split("\n")


def find(ch):
    return next((r, c) for r, row in enumerate(MAZE) for c, cell in enumerate(row) if cell == ch)


def search(start, goal):
    queue, came = deque([start]), {start: None}
    while queue:
        r, c = spot = queue.popleft()
        if spot == goal:
            break
        for dr, dc in ((0, 1), (1, 0), (0, -1), (-1, 0)):
            new = (r + dr, c + dc)
            if MAZE[new[0]][new[1]] != "#" and new not in came:
                came[new] = spot
                queue.append(new)
    path = []
    while goal is not None:
        path.append(goal)
        goal = came[goal]
    return path[::-1], len(came)


path, seen = search(find("S"), find("E"))
print(len(path) - 1, "steps,", seen, "cells seen")
on_path = set(path[1:-1])
for r, row in enumerate(MAZE):
    print("".join("*" if (r, c) in on_path else cell for c, cell in enumerate(row)))
print("".join({(0, 1): "R", (0, -1): "L", (1, 0): "D", (-1, 0): "U"}[b[0] - a[0], b[1] - a[1]] for a, b in zip(path, path[1:])))
