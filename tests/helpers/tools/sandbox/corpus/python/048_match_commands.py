# Interpret these commands of a drawing robot with structural pattern matching.
from dataclasses import dataclass


@dataclass
class Point:
    x: int
    y: int


def run(command, at):
    match command:
        case ["go", ("north" | "south") as way, int(n)]:
            return Point(at.x, at.y + (n if way == "north" else -n)), f"moved {n} {way}"
        case ["go", way, n] if way in {"east", "west"}:
            return Point(at.x + (n if way == "east" else -n), at.y), f"moved {n} {way}"
        case {"jump": [x, y], **rest}:
            return Point(x, y), f"jumped, rest={rest}"
        case Point(x=0, y=0):
            return command, "home"
        case Point(x, y):
            return command, f"set to {x},{y}"
        case ["say", *words]:
            return at, "said " + " ".join(words)
        case "stop" | None:
            return at, "stopped"
        case str() as text:
            return at, f"unknown word {text!r}"
        case [] | {}:
            return at, "empty or other mapping"
        case _:
            return at, f"ignored {command!r}"


at = Point(0, 0)
for command in [
    ["go", "north", 5], ["go", "west", 2], ["go", "up", 1], {"jump": [3, 4], "speed": "fast"}, Point(0, 0),
    Point(7, 8), ["say", "hello", "world"], ["say"], None, "dance", [], {"a": 1}, 3.5, ["go", "south", "far"],
]:
    at, message = run(command, at)
    print(f"({at.x:>2},{at.y:>2}) {message}")
