"""The graph of what a capability needs."""

from __future__ import annotations

from itertools import pairwise

from capset_server.console.dependency_graph import WIDTH, draw_graph


def test_each_stands_after_all_that_need_it() -> None:
    graph = draw_graph("a", {"a": ["b", "d"], "b": ["c"], "c": ["d"], "d": []})
    at = {box.id: box.x for box in graph.boxes}
    assert sorted(at, key=at.__getitem__) == ["a", "b", "c", "d"]
    assert len({box.x for box in graph.boxes}) == 4
    assert len(graph.arrows) == 4
    assert all(arrow.x2 > arrow.x1 for arrow in graph.arrows)
    assert max(box.x for box in graph.boxes) + WIDTH <= graph.width


def test_boxes_of_one_layer_do_not_overlap_and_long_names_are_cut() -> None:
    long = "x" * 60
    graph = draw_graph("a", {"a": ["b", "c", long]})
    ys = sorted(box.y for box in graph.boxes if box.x > graph.boxes[0].x)
    assert all(after - before >= 34 for before, after in pairwise(ys))
    (cut,) = [box for box in graph.boxes if box.id == long]
    assert (len(cut.label), cut.label[-1]) == (24, "…")


def test_a_circle_ends() -> None:
    graph = draw_graph("a", {"a": ["b"], "b": ["a", "c"], "c": ["b"]})
    assert [box.id for box in graph.boxes] == ["a", "b", "c"]
