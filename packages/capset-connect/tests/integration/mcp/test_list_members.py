"""Lists and handshakes with malformed members: each costs itself alone (spec 7, M92)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import DiscoverResult, InitializeResult, ListPromptsResult, ListToolsResult
from mcp_types.methods import validate_server_result
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from capset.errors import PermissionDenied, ToolError
from capset_connect.mcp.lists.members import members_of, readable_result
from tests.helpers.connect.mcp.opening import offers_of, opened
from tests.helpers.connect.mcp.raw import ECHO, NEWEST, OLDER, done, error, not_allowed, result
from tests.helpers.connect.mcp.urls import declared, serving

OBJECT = {"type": "object"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons", "_meta", "arguments"]
)
MEMBERS = st.lists(JSON | st.dictionaries(KEYS, JSON), max_size=4)


def listing(revision: str, lists: Mapping[str, Any], about: Mapping[str, Any] | None = None) -> ASGIApp:
    """Speak one revision, with these results of lists by their methods; ``about`` is said of the server."""
    self_description = {"capabilities": {"tools": {}}, "serverInfo": {"name": "own", "version": "1"}, **(about or {})}

    def answer(message: Mapping[str, Any]) -> Response:
        match message.get("method"):
            case "server/discover" if revision == NEWEST:
                return result(message, {"supportedVersions": [revision], **self_description})
            case "initialize" if revision == OLDER:
                return result(message, {"protocolVersion": revision, **self_description})
            case "tools/call":
                return done(message)
            case str(method) if method in lists:
                return result(message, lists[method])
            case _ if "id" in message:
                return error(message, -32601, "there is no such method")
            case _:
                return Response(status_code=202)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = answer(await request.json()) if request.method == "POST" else not_allowed(request)
        await response(scope, receive, send)

    return app


MALFORMED: Mapping[str, tuple[object, str]] = {
    "no-schema": ({"name": "no-schema"}, "it has no inputSchema"),
    "null": ({"name": "null", "inputSchema": None}, "it has no inputSchema"),
    "empty": ({"name": "empty", "inputSchema": {}}, "the schema of its arguments is not of type object"),
    "list": ({"name": "list", "inputSchema": []}, "its inputSchema must be an object; got a list"),
    "true": ({"name": "true", "inputSchema": True}, "its inputSchema must be an object; got a boolean"),
    "array": ({"name": "array", "inputSchema": {"type": ["array"]}}, "is not of type object"),
    "output": ({"name": "output", "inputSchema": OBJECT, "outputSchema": True}, "its outputSchema must be an object"),
    "x" * 300: ({"name": "x" * 300, "inputSchema": OBJECT}, "its name has 300 characters, more than 256"),
    "tool 9 of the list": ({"inputSchema": OBJECT}, "it has no name"),
    "tool 10 of the list": ({"name": 5, "inputSchema": OBJECT}, "it has no name"),
    "tool 11 of the list": ("shout", "it must be an object; got a text"),
    "tool 12 of the list": (None, "it must be an object; got null"),
}


@pytest.mark.spec("M92")
@pytest.mark.parametrize("revision", [OLDER, NEWEST])
async def test_malformed_tools_are_named_and_unusable_and_the_others_work(revision: str) -> None:
    tools = [*(member for member, _ in MALFORMED.values()), ECHO]
    async with serving(listing(revision, {"tools/list": {"tools": tools}})) as upstream:
        offers = await offers_of(declared(upstream))
        assert offers.keys() == {*MALFORMED, "echo"}
        assert offers["echo"].problems == ()
        for name, (_, problem) in MALFORMED.items():
            assert offers[name].is_unusable
            assert problem in offers[name].problems[0]
        async with opened(declared(upstream)) as site:
            assert await site.call("books_echo") == "done"


@pytest.mark.spec("M92", "M5")
async def test_what_was_approved_goes_on_beside_a_malformed_newcomer(tmp_path: Path) -> None:
    store, tools = f"sqlite:///{tmp_path / 'capset.db'}", [ECHO]
    async with serving(listing(NEWEST, {"tools/list": {"tools": tools}})) as upstream:
        async with opened(declared(upstream), store) as site:
            assert await site.call("books_echo") == "done"
        tools.insert(0, {"name": "odd", "inputSchema": None, "title": 5})
        async with opened(declared(upstream, trust_first_use=False), store) as site:
            assert await site.call("books_echo") == "done"
        tools[1] = {"name": "echo", "inputSchema": None}
        async with opened(declared(upstream, trust_first_use=False), store) as site:
            with pytest.raises(PermissionDenied, match="describes its tool 'echo'"):
                await site.call("books_echo")


@pytest.mark.spec("M92")
@pytest.mark.parametrize("revision", [OLDER, NEWEST])
async def test_annotations_that_are_null_or_mistyped_are_left_out_and_others_pass(revision: str) -> None:
    texts: dict[str, Any] = {"title": 5, "description": ["x"], "icons": [{}], "_meta": [], "execution": "fast"}
    mistyped = {**texts, "name": "mistyped", "inputSchema": OBJECT, "annotations": {"readOnlyHint": "no", "title": 1}}
    nulls = {**dict.fromkeys(texts), "name": "nulls", "inputSchema": OBJECT, "annotations": None, "outputSchema": None}
    complete = {
        "name": "whole",
        "inputSchema": {"type": "object", "properties": {"b": {"default": None}, "a": {}}},
        "annotations": {"title": "Whole", "readOnlyHint": False},
        "execution": {"taskSupport": "optional"},
        "_meta": {"example.com/tag": "x"},
    }
    tools = [mistyped, nulls, complete]
    async with serving(listing(revision, {"tools/list": {"tools": tools}})) as upstream:
        offers = await offers_of(declared(upstream))
        assert offers["mistyped"].shape == {"name": "mistyped", "inputSchema": OBJECT, "annotations": {}}
        assert offers["nulls"].shape == {"name": "nulls", "inputSchema": OBJECT}
        assert offers["whole"].shape == complete
        assert json.dumps(offers["whole"].shape["inputSchema"]) == json.dumps(complete["inputSchema"]), "in its order"
        assert not any(offer.problems for offer in offers.values())
        async with opened(declared(upstream)) as site:
            properties = json.loads((await site.kernel.store.pins.list())[-1].shape)["inputSchema"]["properties"]
            assert list(properties) == ["b", "a"]
            assert await site.call("books_mistyped") == "done"


@pytest.mark.spec("M92")
@pytest.mark.parametrize("types", [["object"], ["object", "null"]])
@pytest.mark.parametrize("revision", [OLDER, NEWEST])
async def test_a_schema_of_an_object_among_other_types_is_that_of_an_object(revision: str, types: list[str]) -> None:
    tool = {**ECHO, "inputSchema": {"type": types, "properties": {"word": {"type": "string"}}}}
    async with (
        serving(listing(revision, {"tools/list": {"tools": [tool]}})) as upstream,
        opened(declared(upstream)) as site,
    ):
        assert site.tool("books_echo").arguments.json_schema["type"] == "object"
        assert await site.call("books_echo", word="Emma") == "done"


@pytest.mark.spec("M92")
@pytest.mark.parametrize(
    ("page", "names"),
    [
        ({"tools": [ECHO], "nextCursor": ""}, ["echo"]),
        ({"tools": [ECHO], "nextCursor": None, "_meta": [], "ttlMs": "x", "cacheScope": None}, ["echo"]),
        ({"tools": None}, []),
    ],
)
async def test_a_list_ends_with_an_empty_cursor_and_may_be_null(page: Mapping[str, Any], names: list[str]) -> None:
    async with serving(listing(NEWEST, {"tools/list": page})) as upstream:
        assert list(await offers_of(declared(upstream))) == names


@pytest.mark.spec("M92")
@pytest.mark.parametrize("page", [{}, {"tools": {"echo": ECHO}}, {"tools": [ECHO], "nextCursor": 2}])
async def test_an_answer_that_is_no_list_is_refused(page: Mapping[str, Any]) -> None:
    async with serving(listing(OLDER, {"tools/list": page})) as upstream:
        with pytest.raises(ToolError, match="sent an invalid response"):
            await offers_of(declared(upstream))


@pytest.mark.spec("M92", "M21")
async def test_malformed_prompts_cost_themselves_alone() -> None:
    prompts: list[object] = [
        {"name": "review", "title": 5, "arguments": [{"name": "code", "required": True}, {"name": "tone", "title": 1}]},
        {"name": "mapped", "arguments": {"code": "text"}},
        {"name": "nameless", "arguments": [{"name": "a"}, {}]},
        {"arguments": []},
        "other",
    ]
    lists = {"tools/list": {"tools": []}, "prompts/list": {"prompts": prompts}}
    async with serving(listing(NEWEST, lists)) as upstream:
        offers = await offers_of(declared(upstream, tools=[], prompts=["review", "mapped", "nameless"]))
    review = offers.pop("prompts/review")
    assert (review.problems, review.shape["inputSchema"]["required"]) == ((), ["code"])
    assert {name: offer.problems for name, offer in offers.items()} == {
        "prompts/mapped": ("its arguments must be a list; got an object",),
        "prompts/nameless": ("its argument 2 has no name",),
    }


@pytest.mark.spec("M92")
@pytest.mark.parametrize("revision", [OLDER, NEWEST])
@pytest.mark.parametrize(
    "about",
    [
        {"serverInfo": {"name": "own", "version": 1, "icons": {}}, "instructions": 5, "_meta": []},
        {"serverInfo": None, "capabilities": {"tools": None, "logging": True, "prompts": {"listChanged": "x"}}},
    ],
)
async def test_what_a_server_says_of_itself_may_be_mistyped(revision: str, about: Mapping[str, Any]) -> None:
    app = listing(revision, {"tools/list": {"tools": [ECHO]}}, about)
    async with serving(app) as upstream, opened(declared(upstream)) as site:
        assert await site.call("books_echo") == "done"


@pytest.mark.spec("M92")
@given(members=MEMBERS, others=st.dictionaries(st.sampled_from(["_meta", "ttlMs", "cacheScope", "resultType"]), JSON))
def test_the_sdk_reads_any_members_and_each_is_as_it_was_sent(members: list[object], others: dict[str, Any]) -> None:
    for kind, method, model in (
        ("tools", "tools/list", ListToolsResult),
        ("prompts", "prompts/list", ListPromptsResult),
    ):
        readable = readable_result({**others, kind: members})
        for revision in (OLDER, NEWEST):
            validate_server_result(method, revision, readable)
        page = model.model_validate(readable, by_name=False)
        assert members_of(page.tools if isinstance(page, ListToolsResult) else page.prompts) == members


@pytest.mark.spec("M92")
@given(about=st.dictionaries(st.sampled_from(["serverInfo", "capabilities", "instructions", "_meta", "ttlMs"]), JSON))
def test_the_sdk_reads_any_handshake_that_names_its_revision(about: dict[str, Any]) -> None:
    first = readable_result({**about, "protocolVersion": OLDER})
    validate_server_result("initialize", OLDER, first)
    assert InitializeResult.model_validate(first, by_name=False).protocol_version == OLDER
    newest = readable_result({**about, "supportedVersions": [NEWEST]})
    assert DiscoverResult.model_validate(newest).supported_versions == [NEWEST]
