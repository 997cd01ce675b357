"""An MCP server of our own, which does what many clients cannot bear: ``odd_server.py whole`` or ``broken``.

It speaks 2025-03-26, and prints before it speaks. One argument is a text, and null by default; a tool answers with an
image, another in another way each time, and a third with an error. ``broken`` has a tool without a schema as well.
"""

from __future__ import annotations

import json
import sys
import uuid
from typing import Any

TEXT = {"type": "string", "default": None, "title": "Text"}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


TOOLS: list[dict[str, Any]] = [
    {"name": "shout", "description": "Shout.", "inputSchema": schema(text=TEXT)},
    {"name": "draw", "description": "Draw.", "inputSchema": schema()},
    {"name": "draws/lots", "description": "Draw lots.", "inputSchema": schema()},
    {"name": "fail", "description": "Fail.", "inputSchema": schema()},
]
BROKEN = {"name": "broken", "description": "Break.", "inputSchema": None}


def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    match tool:
        case "shout":
            return {"content": [{"type": "text", "text": f"{arguments.get('text') or 'a'}!"}], "isError": False}
        case "draw":
            image = {"type": "image", "data": PIXEL, "mimeType": "image/png", "annotations": {"priority": 0.5}}
            return {"content": [{"type": "text", "text": "See draw:"}, image]}
        case "draws/lots":
            return {"content": [{"type": "text", "text": str(uuid.uuid4())}]}
        case _:
            return {"content": [{"type": "text", "text": "there is no such book"}], "isError": True}


def answer(method: str, params: dict[str, Any], tools: list[dict[str, Any]]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            info = {"name": "odd", "version": "1"}
            return {"protocolVersion": "2025-03-26", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": tools}
        case "tools/call":
            return call(params["name"], params.get("arguments") or {})
        case "ping":
            return {}
        case _:
            return None


def main(kind: str) -> None:
    print("Loading the odd server …", flush=True)
    tools = [*TOOLS, BROKEN] if kind == "broken" else TOOLS
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = answer(message["method"], message.get("params") or {}, tools)
        error = {"code": -32601, "message": "there is no such method"}
        outcome = {"error": error} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
