# Count the islands in this map, with their sizes and perimeters, and fill the enclosed lakes.
MAP = """
##...####
#..#.#..#
...#.####
##.......
##..#.#..
....###.#
""".split()


def flood(cells, start):
    stack, seen = [start], {start}
    while stack:
        r, c = stack.pop()
        for near in ((r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)):
            if near in cells and near not in seen:
                seen.add(near)
                stack.append(near)
    return seen


height, width = len(MAP), len(MAP[0])
land = {(r, c) for r in range(height) for c in range(width) if MAP[r][c] == "#"}
rest, islands = set(land), []
while rest:
    island = flood(rest, min(rest))
    rest -= island
    islands.append(island)
for n, island in enumerate(islands, 1):
    edge = sum((r + dr, c + dc) not in island for r, c in island for dr, dc in ((1, 0), (-1, 0), (0, 1), (0, -1)))
    print(f"island {n}: size {len(island)}, perimeter {edge}, from {min(island)} to {max(island)}")
sea = {(r, c) for r in range(-1, height + 1) for c in range(-1, width + 1)} - land
outside = flood(sea, (-1, -1))
for r in range(height):
    print("".join("#" if (r, c) in land else "~" if (r, c) in outside else "o" for c in range(width)))
print(len(islands), len(sea - outside), f"{len(land) / (height * width):.3f}")
