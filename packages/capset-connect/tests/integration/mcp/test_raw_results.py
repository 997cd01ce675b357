"""Lines of processes that are no messages: which request one answers, and what its caller hears (spec 7, M99)."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from capset.errors import ToolError
from capset_connect.mcp import McpServer
from capset_connect.mcp.raw_results import request_answered
from tests.helpers.connect.mcp.opening import opened
from tests.helpers.kernel.support import records_of

pytestmark = pytest.mark.spec("M99")

CALLS = {4: "tools/call", 5: "tools/call", 1: "subscriptions/listen"}
DEEP = b'{"jsonrpc":"2.0","id":5,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    ("line", "pending", "expected"),
    [
        (rb'{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"\ud800"}]}}', CALLS, 5),
        (b'{"jsonrpc":"2.0","id":5,"result":{"text":"\xff"}}', CALLS, 5),
        (b'{"jsonrpc":"2.0","id":5,"result":null}', CALLS, 5),
        (b'{"jsonrpc":"2.0","id":"5","result":[]}', CALLS, 5),
        (b'{"jsonrpc":"2.0","id":5,"error":{"code":"x"}}', CALLS, 5),
        (b'{"jsonrpc":"2.0","id":5,"result":{"content":[{"ty', CALLS, 5),
        (b'{"result":{"id":4,"content":[{"text":"\xff"}]},"id":5,"jsonrpc":"2.0"}', CALLS, 5),
        (DEEP, CALLS, 5),
        (b'{"result":' + b"[" * 100_000 + b"]" * 100_000 + b',"id":5,"jsonrpc":"2.0"}', CALLS, 5),
        (b'{"jsonrpc":"2.0","result":null}', {5: "tools/call", 1: "subscriptions/listen"}, 5),
        (b'{"jsonrpc":"2.0","result":{"content":[', {5: "tools/call"}, 5),
        (b'{"jsonrpc":"2.0","result":null}', CALLS, None),
        (b'{"jsonrpc":"2.0","id":7,"result":null}', {5: "tools/call"}, None),
        (b'{"jsonrpc":"2.0","id":5,"method":"sampling/createMessage","params":{"error":"\xff"', CALLS, None),
        (b'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"result":"\\ud800"}}', CALLS, None),
        (b'{"level":"error","id":5,"error":"disk full"}', {5: "tools/call"}, None),
        (b"{5} results", {5: "tools/call"}, None),
        (b"", {5: "tools/call"}, None),
        (b'{"jsonrpc":"2.0","result":null}', {}, None),
    ],
)
def test_a_line_ends_the_request_that_it_answers_and_no_other(
    line: bytes, pending: dict[int | str, str], expected: int | None
) -> None:
    assert request_answered(line, pending) == expected


SERVER = r"""
import json, sys

LINES = {
    "surrogate": b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"\\ud800"}]}}',
    "bytes": b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"\xff"}]}}',
    "deep": b'{"jsonrpc":"2.0","id":%d,"result":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "cut": b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"te',
    "null": b'{"jsonrpc":"2.0","id":%d,"result":null}',
    "without an id": b'{"jsonrpc":"2.0","result":null}',
    "an error for nobody": b'{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"it broke"}}',
    "right": b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"done"}]}}',
}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    match message["method"]:
        case "initialize":
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
            answer["result"] = {"protocolVersion": "2025-06-18", **about}
        case "tools/list":
            schema = {"type": "object", "properties": {"how": {"type": "string"}}}
            answer["result"] = {"tools": [{"name": "say", "inputSchema": schema}]}
        case "tools/call":
            print('{"a line": "that is a log"}\n{', flush=True)
            text = LINES[message["params"]["arguments"]["how"]]
            sys.stdout.buffer.write((text % message["id"] if b"%d" in text else text) + b"\n")
            sys.stdout.buffer.flush()
            continue
        case _:
            answer["error"] = {"code": -32601, "message": "no"}
    print(json.dumps(answer), flush=True)
"""


@pytest.mark.realtime
@pytest.mark.spec("G61")
async def test_a_call_whose_answer_cannot_be_read_fails_at_once_and_is_not_called_retryable(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    server = McpServer(
        name="odd", command=[sys.executable, str(script)], trust_first_use=True, rules={"say": {"effect": "read"}}
    )
    async with opened(server) as site:
        assert await site.call("odd_say", how="right") == "done"
        async with asyncio.timeout(server.timeout / 2):  # far sooner than a call ends by its own time
            for how in ("surrogate", "bytes", "deep", "cut", "null", "without an id"):
                with pytest.raises(ToolError, match="the outcome of the call is unknown") as caught:
                    await site.call("odd_say", how=how)
                assert (caught.value.code, caught.value.retryable) == ("bad_answer", False), how
            with pytest.raises(ToolError, match="it broke"):
                await site.call("odd_say", how="an error for nobody")
        assert await site.call("odd_say", how="right") == "done", "the connection goes on"
        outcomes = [(record.outcome, record.code) for record in await records_of(site.kernel.audit, tool="odd_say")]
        assert outcomes == [
            ("succeeded", None),
            *[("unknown", "bad_answer")] * 6,
            ("failed", "mcp_error"),
            ("succeeded", None),
        ]
