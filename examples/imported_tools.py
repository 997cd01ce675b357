"""Tools that others defined as JSON become governed tools with one handler, and are written as JSON again."""

import asyncio
from typing import Any

from capset import Agent, Kernel, Principal
from capset.errors import ApprovalRequired, InvalidArguments
from capset_connect.interop import export_tools, import_tools, read_tools

DEFINITIONS: list[dict[str, Any]] = [
    {  # a function document, in the types of Python
        "name": "orders.find",
        "description": "Find the orders of a customer.",
        "parameters": {
            "type": "dict",
            "properties": {
                "customer": {"type": "str"},
                "status": {"type": "str", "enum": ["open", "paid"], "default": None},
                "limit": {"type": "int", "optional": True},
            },
            "required": ["customer"],
        },
    },
    {  # OpenAI's
        "type": "function",
        "function": {
            "name": "refund",
            "description": "Pay an order back.",
            "parameters": {
                "type": "object",
                "properties": {"order": {"type": "integer"}, "amount": {"type": "number", "exclusiveMinimum": 0}},
                "required": ["order", "amount"],
                "additionalProperties": False,
            },
        },
    },
    {"name": "when", "input_schema": {"type": "object", "properties": {"day": {"type": "Date"}}}},
]


async def handle(name: str, arguments: dict[str, Any]) -> Any:
    match name:
        case "orders.find":
            return [{"order": 7, "customer": arguments["customer"], "status": arguments["status"] or "open"}]
        case "refund":
            return f"{arguments['amount']} of order {arguments['order']} paid back"
        case other:
            raise AssertionError(other)


async def main() -> None:
    for reason in read_tools(DEFINITIONS).refused:
        print(f"refused: {reason}")
    shop = import_tools(
        DEFINITIONS,
        name="shop",
        handler=handle,
        effect="read",
        rules={
            "refund": {
                "effect": "external",
                "approval": "ask",
                "arguments": {"amount": {"type": "number", "maximum": 100}},
            }
        },
        skip_refused=True,
    )
    print("names:", dict(shop.names))
    agent = Agent("clerk", uses=[shop.capability])
    async with Kernel(store="memory://") as kernel, kernel.open(agent, principal=Principal("ada")) as session:
        print(await session.call(shop.tools["orders.find"], customer="Emma"))
        try:
            await session.call(shop.tools["orders.find"], customer=7)
        except InvalidArguments as error:
            print(error.message)
        try:
            await session.options(approvals="defer").call(shop.tools["refund"], order=7, amount=20)
        except ApprovalRequired as error:
            print(error.message)
        exported = export_tools(session.snapshot, "openai", names=shop.names)
    assert set(read_tools(exported.content).names.values()) == {"orders.find", "refund"}
    print("not said to OpenAI:", "; ".join(exported.left_out))


asyncio.run(main())
