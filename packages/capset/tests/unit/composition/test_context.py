"""Context as the model reads it (spec 1, C22–C26)."""

from __future__ import annotations

from collections import ChainMap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Agent, Capability, Composition, ContextMessage, DefinitionError, compose
from capset.composition.context import RESERVED_TAGS, RenderedContext, render_context, tag_of
from capset.composition.sources import ContributionSource
from capset.errors import ContextError, ContextShapeConflict

ONE, TWO = ContributionSource(("a", "one"), "one"), ContributionSource(("a", "two"), "two", "full")


def xml(*values: Any) -> str:
    return render_context([(ONE, value) for value in values]).xml


def rendered(composition: Composition) -> RenderedContext:
    return render_context([(entry.source, entry.value.value) for entry in composition.context])


@pytest.mark.spec("C24", "C26")
def test_contributors_under_one_key_share_one_block_in_their_order() -> None:
    first = {"userPreferences": "likes tea", "places": {"home": "A & B"}}
    other = {"user_preferences": ["likes <b>", "\nand\n  more\n"], "places": {"work": "C", "home": "D"}}
    message = ContextMessage("user", "Hello")
    assert render_context([(ONE, first), (TWO, other), (ONE, "plain < text"), (TWO, message)]) == RenderedContext(
        "<user-preferences>\n  likes tea\n  likes &lt;b&gt;\n  and\n    more\n</user-preferences>\n"
        "<places>\n  <home>\n    A &amp; B\n    D\n  </home>\n  <work>\n    C\n  </work>\n</places>",
        ("plain < text",),
        (message,),
    )


@pytest.mark.spec("C23")
@pytest.mark.parametrize(
    ("key", "tag"),
    [
        *((key, "user-preferences") for key in ("userPreferences", "user_preferences", "User Preferences")),
        *(("HTMLParser", "html-parser"), ("page2Title", "page2-title"), ("a-b", "a-b"), ("a", "a")),
        *((reserved, None) for reserved in ("system", "System", "tool_use", "toolUse", "TOOL-USE", "Thinking")),
        *((wrong, None) for wrong in ("", "2nd", "-a", "_a", "a.b", "a<b", "a/b")),
        *((wrong, None) for wrong in ("caf\u00e9", "\u212aelvin", "thin\u212aing", "a\u00a0b", "\u0430", "\uff41")),
        *((wrong, None) for wrong in (5, None, b"a", ("a",), "x\ud800")),
    ],
)
def test_keys_become_tags(key: Any, tag: str | None) -> None:
    assert tag_of(key) == tag


@pytest.mark.spec("C23")
def test_a_key_that_cannot_be_a_tag_is_refused_at_composition() -> None:
    assert {"system", "user", "assistant", "capability", "tool-use", "thinking"} <= RESERVED_TAGS
    contexts: list[Any] = [{wrong: "x"} for wrong in ("system", "2nd", "", 5, "a\ud800")]
    for inner in (*contexts, {"system": [lambda: ""]}):
        capability = Capability("c", context=[{"outer": inner}])
        with pytest.raises(DefinitionError, match=r"the context of capability 'c' \(a → c\) has the key") as refused:
            compose(Agent("a", uses=[capability]))
        assert "user-preferences" in str(refused.value.hint)


@pytest.mark.spec("C14", "C24")
@pytest.mark.parametrize(
    ("first", "second", "where"),
    [
        ({"mood": "good"}, {"mood": {"now": "bad"}}, "<mood> is text from {one} and a mapping from {two}"),
        ({"mood": {"now": "x"}}, {"Mood": ["bad"]}, "<mood> is a mapping from {one} and text from {two}"),
        ({"a": {"b": "x"}}, {"a": {"b": {"c": "y"}}}, "<a b> is text from {one} and a mapping from {two}"),
        ({"a": {}}, {"a": "x"}, "<a> is a mapping from {one} and text from {two}"),
    ],
)
def test_text_against_a_mapping_is_a_conflict_that_names_both(first: Any, second: Any, where: str) -> None:
    with pytest.raises(ContextShapeConflict) as refused:
        render_context([(ONE, first), (TWO, second)])
    assert str(refused.value) == where.format(one=ONE, two=TWO)
    assert (refused.value.code, bool(refused.value.hint)) == ("context_shape_conflict", True)


@pytest.mark.spec("C25")
def test_none_reserves_a_place_without_a_shape_and_what_is_empty_is_left_out() -> None:
    assert xml({"first": None}, {"second": "2"}, {"first": {"inner": "1"}}).startswith("<first>\n  <inner>")
    assert xml({"first": None}, {"second": "2"}, {"first": "1"}).startswith("<first>\n  1\n")
    assert xml({"a": None, "b": {"c": None, "d": ""}, "e": [], "f": {}, "g": [None, "", " \n"]}) == ""
    assert render_context([(ONE, [None, "", "  ", []])]) == RenderedContext("", (), ())
    assert xml({"a": ""}, {"a": {"b": "x"}}) == xml({"a": {"b": "x"}})


@pytest.mark.spec("C25")
@pytest.mark.parametrize("wrong", [False, True, 0, 5, 1.5, b"x", {"a", "b"}, object(), Agent("a"), range(2)])
def test_what_is_no_text_is_refused_and_not_rendered(wrong: Any) -> None:
    for value in ({"a": wrong}, {"a": {"b": [wrong]}}, [wrong]):
        with pytest.raises(ContextError, match="context is text, a mapping, a list of those or None") as refused:
            render_context([(ONE, value)])
        assert str(ONE) in str(refused.value)
        with pytest.raises(DefinitionError, match="capability 'c': context is text, a mapping"):
            Capability("c", context=[value])
    if not callable(wrong):
        with pytest.raises(DefinitionError, match="agent 'a': context"):
            Agent("a", context=wrong)


@pytest.mark.spec("C25", "C20")
def test_the_blocks_own_entries_come_first_and_then_the_capabilities() -> None:
    first, last = Capability("first", context=["1", {"shared": "one"}]), Capability("last", context=["2"])
    agent = Agent("a", uses=[first, last], context=["own", {"shared": "own"}])
    assert rendered(compose(agent)) == RenderedContext("<shared>\n  own\n  one\n</shared>", ("own", "1", "2"), ())


@pytest.mark.spec("C26")
def test_lone_surrogates_and_bottomless_values_are_refused() -> None:
    for bad in ("x\ud800", ["\udc00"], {"a": "\ud800"}):
        with pytest.raises(ContextError, match="lone surrogate"):
            render_context([(ONE, bad)])
        with pytest.raises(DefinitionError, match="lone surrogate"):
            Capability("c", context=[bad])
    circle: list[Any] = []
    circle.append(circle)
    ring: dict[str, Any] = {}
    ring["again"] = ring
    deep: Any = "x"
    for _ in range(30):
        deep = {"a": deep}
    with_function: list[Any] = [lambda ctx: ""]
    with_function.append(with_function)
    for bottomless in (circle, ring, deep, {"a": circle}):
        with pytest.raises(ContextError, match="nested more than 20 levels deep"):
            render_context([(ONE, bottomless)])
    for bottomless in (circle, ring, deep, {"a": circle}, with_function, {"a": with_function}):
        with pytest.raises(DefinitionError, match=r"capability 'c': .*nested more than 20 levels"):
            Capability("c", context=[bottomless])


@pytest.mark.spec("C26")
def test_line_ends_are_one_and_margins_are_kept() -> None:
    assert xml({"a": "one\r\ntwo\rthree\n\n  four"}) == "<a>\n  one\n  two\n  three\n\n    four\n</a>"


@pytest.mark.spec("C26")
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_never_escapes_its_tag(text: str) -> None:
    inside = xml({"a": text}).removeprefix("<a>").removesuffix("</a>")
    assert not {"<", ">"} & {*inside}


@pytest.mark.spec("C22")
def test_any_mapping_will_do_and_nobody_changes_it_later() -> None:
    mutable: dict[str, Any] = {"list": ["x"], "inner": {"a": "b"}}
    odd = ChainMap({"b": "B"}, {"a": "A"})
    capability = Capability("c", context=[odd, mutable, "text", ["t1", {"m": "n"}]])
    before = rendered(compose(Agent("a", uses=[capability])))
    mutable["list"].append("y")
    mutable["inner"]["a"] = "z"
    mutable["new"] = False
    assert rendered(compose(Agent("a", uses=[capability]))) == before
    assert before.xml.startswith("<a>\n  A\n</a>\n<b>\n  B\n</b>\n<list>\n  x\n</list>")
    assert before.texts == ("text", "t1")


@pytest.mark.spec("C22")
def test_one_entry_needs_no_list_and_a_list_is_one_of_entries() -> None:
    single: list[Any] = ["text", {"a": "b"}, ContextMessage("user", "x"), lambda: "x", [None, "", "a"]]
    assert [len(Capability("c", context=declared).part.context) for declared in (*single, ["a", "b"])] == [1] * 5 + [2]


@pytest.mark.spec("C22")
@pytest.mark.parametrize("wrong", [lambda a, b, c: "x", lambda *, ctx: "x", dict])
def test_a_function_takes_input_and_context_at_most(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match=r"capability 'c': context .*(must take|is a class)"):
        Capability("c", context=[wrong])
    takes = [entry.takes for entry in Capability("c", context=[lambda: "", lambda c: "", lambda i, c: ""]).part.context]
    assert takes == [0, 1, 2]


@pytest.mark.spec("C21")
def test_a_message_is_of_the_user_or_the_assistant() -> None:
    for wrong in ("system", "", None):
        with pytest.raises(DefinitionError, match="a context message has the role user or assistant"):
            ContextMessage(wrong, "x")  # pyright: ignore[reportArgumentType]
    for text in (5, "\ud800"):
        with pytest.raises(DefinitionError, match="a context message's content"):
            ContextMessage("user", text)  # pyright: ignore[reportArgumentType]


NESTED = st.recursive(
    st.sampled_from(["", "x", "a & b", "two\nlines", None]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)


def with_functions(value: Any) -> Any:
    """Return the same context, each text of which comes from a function, but for ``x``."""
    match value:
        case dict():
            return {key: with_functions(inner) for key, inner in value.items()}
        case list():
            return [with_functions(inner) for inner in value]
        case _:
            return value if value == "x" else lambda: value


@pytest.mark.spec("C22", "C24", "C25")
@given(NESTED)
def test_functions_at_any_depth_give_what_their_results_would(value: Any) -> None:
    def outcome(declared: Any) -> RenderedContext | str:
        entries = Capability("c", context=[declared]).part.context
        placed = [
            (ONE, entry.nest_under_keys(entry.value if entry.function is None else entry.function()))
            for entry in entries
        ]
        try:
            return render_context(placed)
        except ContextShapeConflict as error:
            return str(error)

    assert outcome(with_functions(value)) == outcome(value)


@pytest.mark.spec("C22")
def test_the_keys_of_a_function_count_in_the_hash() -> None:
    def hashed(declared: Any) -> str:
        return compose(Agent("a", uses=[Capability("c", context=[declared])])).static_hash

    function: Any = lambda ctx: ""  # noqa: E731
    shapes: list[Any] = [function, {"a": function}, {"b": [function]}, {"a": {"b": function}}]
    assert len({hashed(shape) for shape in shapes}) == len(shapes)
    assert hashed({"a": [function]}) == hashed({"a": function})


@pytest.mark.spec("C21")
@pytest.mark.parametrize(
    "message", [{"content": "Hi", "role": "engineer"}, {"role": "tool", "content": "Hi", "name": "x"}]
)
def test_a_mapping_of_role_and_content_is_no_message_and_is_refused(message: dict[str, str]) -> None:
    for declared in ([message], message, [["a", message]], [["a", lambda ctx: "b", [message]]]):
        with pytest.raises(DefinitionError, match="role and content") as refused:
            Capability("c", context=declared)
        assert "ContextMessage(" in str(refused.value.hint)
    for returned in (message, [message]):  # as a function returns it
        with pytest.raises(ContextError, match=r"capability 'one' .* has a mapping of role and content") as at_last:
            xml(returned)
        assert "ContextMessage(" in str(at_last.value.hint)


@pytest.mark.spec("C21", "C23")
def test_a_role_or_a_content_below_a_tag_or_of_another_kind_is_a_tag() -> None:
    history = {"history": [{"role": "user", "content": "Hi"}]}
    context = Capability("c", context=[history, {"role": "engineer", "content": "x", "goals": "y"}, {"role": "x"}])
    text = xml(*(entry.value for entry in context.part.context))
    assert "<role>\n    user\n  </role>" in text
    assert "<goals>\n  y\n</goals>" in text
