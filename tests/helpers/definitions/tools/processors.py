"""Messages and a maker of processors, for the tests of their definitions."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

from capset import Context, Emit, Message, Tool, handles


class Say(BaseModel):
    """Say something."""

    kind: Literal["command"] = "command"
    type: Literal["Chat.Say"] = "Chat.Say"
    data: str


class Said(BaseModel):
    """It was said."""

    kind: Literal["event"] = "event"
    type: Literal["Chat.Said"] = "Chat.Said"
    data: str


class Answer(BaseModel):
    """What comes back."""

    kind: Literal["reply"] = "reply"
    type: Literal["Chat.Say"] = "Chat.Say"
    data: str


async def answer(message: Any, emit: Emit, ctx: Context) -> None:
    await emit(Message("reply", "Chat.Say", repr(getattr(message, "data", "nothing"))))


def message(annotation: Any = None, doc: str | None = "Some message.", **fields: Any) -> Any:
    """Return the model of a message; ``fields`` are annotations, ``default`` that of its data."""
    default = {"data": fields.pop("default")} if "default" in fields else {}
    names: dict[str, Any] = {"kind": Literal["query"], "type": Literal["Some.Thing"]}
    names |= {} if annotation is None else {"data": annotation}
    names |= fields
    space = {"__annotations__": names, "__doc__": doc, "__module__": __name__, **default}
    return type("Some", (BaseModel,), space)


def processor(**overrides: Any) -> Tool[..., Any]:
    """Return a processor with something of its own."""
    arguments: dict[str, Any] = {
        "inbound": Say,
        "outbound": Said | Answer,
        "factory": handles(answer),
        "description": "Say it to them.",
        **overrides,
    }
    return Tool.from_processor(**arguments)
