"""The laws of the merge, over generated graphs of capabilities (spec 1)."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from capset import Agent, Capability, Composition, compose
from capset.composition.context import render_context, tag_of
from capset.composition.resolve import resolve
from capset.errors import PresetConflict
from tests.examples import examples
from tests.helpers.composition.graphs import CONTEXTS, Edge, Graph, graphs

# A graph takes long to generate; many short runs find what one long one does.
FEW = examples(12, 50)


def seen(composition: Composition) -> dict[str, Any]:
    """Return all that a composition says, in its order, comparable between two built of the same capabilities."""
    return {
        "tools": [(name, tool.tool, tool.policies) for name, tool in composition.tools.items()],
        "instructions": composition.instructions,
        "context": [entry.value.value for entry in composition.context],
        "resources": [(key, resource.value) for key, resource in composition.merged.resources.items()],
        "state": {scope: list(state.model.model_fields) for scope, state in composition.merged.states.items()},
        "files": list(composition.mounts.items()),
        "hash": composition.static_hash,
        "text": composition.system_text,
        "explained": [str(explained) for explained in composition.explain()],
    }


def composed(graph: Graph) -> Composition:
    assume(graph.oracle() is not None)
    return compose(graph.agent())


@pytest.mark.spec("C39", "C7")
@FEW
@given(graphs())
def test_the_same_agent_composes_to_the_same_and_an_equal_one_to_the_same_hash(graph: Graph) -> None:
    composition = composed(graph)
    assert seen(compose(composition.block)) == seen(composition)
    rebuilt = compose(graph.agent())
    assert (rebuilt.static_hash, rebuilt.system_text) == (composition.static_hash, composition.system_text)


@pytest.mark.spec("C7", "C8", "C9")
@FEW
@given(graphs())
def test_dependencies_stand_before_dependents_and_each_once(graph: Graph) -> None:
    names = [choice.capability.name for choice in composed(graph).capability_uses]
    assert sorted(names) == sorted(f"c{number}" for number in graph.reached())
    for number in graph.reached():
        for edge in graph.nodes[number].uses:
            assert names.index(f"c{edge.to}") < names.index(f"c{number}")


@pytest.mark.spec("C7")
@FEW
@given(graphs(chooses=False))
def test_the_order_is_depth_first_and_then_that_of_the_list(graph: Graph) -> None:
    order: list[str] = []

    def visit(edges: tuple[Edge, ...]) -> None:
        for edge in edges:
            visit(graph.nodes[edge.to].uses)
            if f"c{edge.to}" not in order:
                order.append(f"c{edge.to}")

    visit(graph.roots)
    assert [capability.name for capability in compose(graph.agent()).capabilities] == order


def nothing_changes(graph: Graph, *more: Edge) -> bool:
    capabilities = graph.capabilities()
    repeating = compose(graph.agent(capabilities, [*graph.roots, *more]))
    return seen(repeating) == seen(compose(graph.agent(capabilities)))


@pytest.mark.spec("C6", "C9")
@FEW
@given(graphs(chooses=False), st.data())
def test_using_the_same_again_by_any_way_changes_nothing(graph: Graph, data: st.DataObject) -> None:
    assert nothing_changes(graph, Edge(data.draw(st.sampled_from(sorted(graph.reached())))))


@pytest.mark.spec("C6", "C9")
@FEW
@given(graphs())
def test_saying_the_same_twice_changes_nothing(graph: Graph) -> None:
    """With choices only at the root again: a bare reference there brings those of what it uses nearer, too."""
    assume(graph.oracle() is not None)
    assert nothing_changes(graph, *graph.roots)


@pytest.mark.spec("C6", "C3", "C5")
@examples(25, 150)
@given(graphs())
def test_the_nearest_choice_wins_and_two_at_one_depth_conflict(graph: Graph) -> None:
    expected = graph.oracle()
    if expected is None:
        with pytest.raises(PresetConflict, match=r" by agent .* by agent ") as refused:
            compose(graph.agent())
        assert (refused.value.code, bool(refused.value.hint)) == ("preset_conflict", True)
    else:
        chosen = compose(graph.agent()).capability_uses
        assert {choice.capability.name: choice.presets for choice in chosen} == {
            f"c{number}": presets for number, presets in expected.items()
        }


@pytest.mark.spec("C4", "C6")
@FEW
@given(graphs(), st.dictionaries(st.sampled_from(["p0", "p1"]), st.booleans()), st.data())
def test_choosing_twice_is_choosing_what_both_come_to(
    graph: Graph, later: dict[str, bool], data: st.DataObject
) -> None:
    capability = graph.capabilities()[-1]
    earlier = data.draw(st.dictionaries(st.sampled_from(["p0", "p1"]), st.booleans()))
    first, two = ({k: v for k, v in choices.items() if k in capability.presets} for choices in (earlier, later))
    twice = Agent("a", uses=[capability.with_presets(**first).with_presets(**two)])
    together = Agent("a", uses=[capability.with_presets(**{**first, **two})])
    if Graph(graph.nodes, (Edge(len(graph.nodes) - 1),), graph.own).oracle() is not None:
        assert seen(compose(twice)) == seen(compose(together))


@pytest.mark.spec("C3", "C4")
@FEW
@given(graphs(chooses=False), st.data())
def test_nothing_grows_when_a_preset_is_switched_off(graph: Graph, data: st.DataObject) -> None:
    having = sorted(number for number in graph.reached() if graph.nodes[number].presets)
    assume(having)
    number = data.draw(st.sampled_from(having))
    capabilities = graph.capabilities()

    def with_preset(is_on: bool) -> Composition:
        return compose(graph.agent(capabilities, [*graph.roots, Edge(number, (("p0", is_on),))]))

    more, less = with_preset(True), with_preset(False)
    assert less.tools.keys() <= more.tools.keys()
    assert less.merged.resources.keys() <= more.merged.resources.keys()
    assert less.mounts.items() <= more.mounts.items()
    assert not Counter(less.instructions) - Counter(more.instructions)
    for name, installed in less.tools.items():
        assert set(installed.policies) <= set(more.tools[name].policies), "a preset adds gates, and takes none away"
    for scope, state in less.merged.states.items():
        assert state.fields.keys() <= more.merged.states[scope].fields.keys()
    assert less.static_hash != more.static_hash


@pytest.mark.spec("C20", "C7")
@FEW
@given(graphs(chooses=False), st.integers(1, 3))
def test_nesting_says_the_same_as_a_list(graph: Graph, split: int) -> None:
    """A capability that only uses others is worth what it uses: (A + B) + C is A + (B + C)."""
    capabilities = graph.capabilities()
    left, right = ([capabilities[edge.to] for edge in edges] for edges in (graph.roots[:split], graph.roots[split:]))
    options: Any = graph.own.given()
    flat = seen(compose(graph.agent(capabilities)))
    for uses in ([Capability("bundle", uses=left), *right], [*left, Capability("other", uses=right)]):
        nested = seen(compose(Agent("agent", uses=uses, **options)))
        for key in ("tools", "instructions", "context", "resources", "state", "files", "text"):
            assert nested[key] == flat[key], key


@pytest.mark.spec("C40")
@FEW
@given(graphs())
def test_everything_is_explained_once_by_one_who_declares_it(graph: Graph) -> None:
    composition = compose(graph.agent()) if graph.oracle() is not None else compose(Agent("agent"))
    explained = composition.explain()
    names: defaultdict[str, list[str]] = defaultdict(list)
    for explanation in explained:
        names[explanation.surface].append(explanation.name)
    merged = composition.merged
    assert names["tool"] == list(composition.tools)
    assert names["resource"] == [f"{scope}.{name}" for scope, name in merged.resources]
    assert sorted(names["state"]) == sorted(
        f"{scope}.{name}" for scope, state in merged.states.items() for name in state.model.model_fields
    )
    assert names["instruction"] == [text.splitlines()[0] for text in composition.instructions]
    assert len(names["context"]) == len(composition.context)
    assert names["file"] == list(composition.mounts)
    assert {*names["policy"]} == {gate.id for installed in composition.tools.values() for gate in installed.policies}
    parts = {str(source): part for chosen in composition.capability_uses for source, part in chosen.parts}
    for explanation in explained:
        part = parts.get(str(explanation.source), composition.block.part)
        assert explanation.source.path[0] == "agent"
        declared: dict[str, Any] = {
            "tool": [tool.name for tool in part.tools],
            "resource": [f"{r.scope}.{r.name}" for r in part.resources],
            "state": [f"{scope}.{name}" for scope, model in part.state.items() for name in model.model_fields],
            "instruction": [text.splitlines()[0] for text in part.instructions],
            "file": list(part.files),
            "policy": [gate.id for gate in part.every_policy],
        }
        assert explanation.name in declared.get(explanation.surface, [explanation.name]), explanation


@pytest.mark.spec("C28", "C29")
@FEW
@given(graphs(chooses=False), st.data())
def test_dynamic_uses_add_what_static_ones_would_and_nothing_twice(graph: Graph, data: st.DataObject) -> None:
    capabilities = graph.capabilities()
    numbers = st.lists(st.sampled_from(range(len(capabilities))), max_size=4)
    some, later = data.draw(numbers), data.draw(numbers)

    def decide(ctx: object) -> list[Capability]:
        return []

    def contributed(composition: Composition) -> Any:
        tools = {(name, entry.tool, frozenset(entry.policies)) for name, entry in composition.tools.items()}
        return (
            tools,
            Counter(composition.instructions),
            Counter(choice.capability for choice in composition.capability_uses),
        )

    first, added = ([capabilities[number] for number in numbers] for numbers in (some, later))
    static = compose(Agent("agent", uses=[*first, *added]))
    agent = Agent("agent", uses=[*first, decide])
    dynamic = compose(agent, {decide: tuple(capability.ref for capability in added)}, data=static.data)
    assert contributed(dynamic) == contributed(static)
    assert [choice.capability for choice in dynamic.capability_uses if not choice.is_dynamic] == [
        choice.capability for choice in resolve(agent).capability_uses
    ]


@pytest.mark.spec("C24", "C25", "C26")
@FEW
@given(graphs())
def test_the_context_is_xml_that_says_everything_once(graph: Graph) -> None:
    composition = composed(graph)
    values: Any = [(entry.source, entry.value.value) for entry in composition.context]
    rendered = render_context(values)
    assert rendered == render_context(values)
    root = ElementTree.fromstring(f"<root>{rendered.xml}</root>")
    assert shape(root) == model([value for _, value in values])
    assert rendered.texts == tuple(CONTEXTS[0] for _, value in values if value == CONTEXTS[0])


def shape(element: ElementTree.Element) -> Any:
    """Return parsed XML as mappings in order, and as text without margins."""
    if len(element):
        return [(child.tag, shape(child)) for child in element]
    text = "\n".join(line.strip() for line in (element.text or "").strip().splitlines())
    return text or []


def model(values: list[Any]) -> Any:
    """Merge context values as simply as can be."""
    merged: dict[str, Any] = {}

    def put(into: dict[str, Any], key: str, value: Any) -> None:
        into.setdefault(key, None)
        for element in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(element, str):
                into[key] = [*(into[key] or []), element]
            elif element is not None:
                into[key] = into[key] or {}
                for inner, member in element.items():
                    put(into[key], tag_of(inner) or "", member)

    for value in values:
        if not isinstance(value, str):
            for key, member in value.items():
                put(merged, tag_of(key) or "", member)

    def as_lists(inner: dict[str, Any]) -> list[Any]:
        pairs = [(k, "\n".join(v) if isinstance(v, list) else as_lists(v or {})) for k, v in inner.items()]
        return [pair for pair in pairs if pair[1]]

    return as_lists(merged)
