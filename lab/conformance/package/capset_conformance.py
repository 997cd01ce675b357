"""What the MCP conformance suite asks for by name, as a capability that a server can have installed.

This folder on ``PYTHONPATH`` is enough: the entry point stands in the ``dist-info`` folder beside this module.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict

from capset import Capability, Context, Progress, Reply, ToolError, tool
from capset.definitions.references import AnyRef
from capset.ext import Audio, Content, Embedded, Image, McpPrompt, McpResource
from capset.schemas.schema import Schema

PAUSE: Final = 0.05
"""Seconds between two steps of a streaming tool."""


@tool(effect="read")
async def test_simple_text() -> str:
    """Give a text."""
    return "This is a simple text response for testing."


@tool(effect="read")
async def test_error_handling() -> str:
    """Fail on purpose."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool(effect="read")
async def test_tool_with_progress() -> AsyncIterator[Progress | Reply[str]]:
    """Go through three steps, and tell of each."""
    for fraction in (0.0, 0.5, 1.0):
        yield Progress(fraction)
        await asyncio.sleep(PAUSE)
    yield Reply("done")


@tool(effect="read")
async def test_streaming_elicitation() -> AsyncIterator[Progress | Reply[str]]:
    """Stream; the suite looks at what a response's stream is made of, and elicitation is not what it asks for."""
    yield Progress(0.5)
    yield Reply("done")


@tool(effect="read")
async def test_logging_tool() -> str:
    """Give a text; the suite asks for no log messages, and expects none."""
    return "done"


@tool(effect="read")
async def test_custom_headers(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """Give back a region, which clients repeat in a header for whoever routes the request."""
    return region


class Contact(TypedDict, total=False):
    """What ``CONTACT`` describes, as far as a type can say it."""

    name: str
    address: dict[str, str]
    contactMethod: Literal["phone", "email"]
    phone: str
    email: str


def reachable(contact: Contact) -> Contact:
    """Refuse what the conditions of ``CONTACT`` refuse."""
    needed = "phone" if contact.get("contactMethod") == "phone" else "email"
    if needed not in contact:
        raise ValueError(f"{needed} is missing")
    return contact


CONTACT: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
"""A schema as another system may write one, with every keyword that must reach a client unchanged."""


@tool(effect="read")
async def json_schema_2020_12_tool(
    name: str = "",
    address: dict[str, str] | None = None,
    contactMethod: str = "",
    phone: str = "",
    email: str = "",
) -> str:
    """Tool with JSON Schema 2020-12 features."""
    return phone or email


PIXEL: Final = Image(
    data=b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="),
    media_type="image/png",
)
"""A red one."""
SILENCE: Final = Audio(
    data=b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\0\0\0\0",
    media_type="audio/wav",
)


@tool(effect="read")
async def test_image_content() -> Image:
    """Give an image."""
    return PIXEL


@tool(effect="read")
async def test_audio_content() -> Audio:
    """Give a recording."""
    return SILENCE


@tool(effect="read")
async def test_embedded_resource() -> Embedded:
    """Give a resource, with what is in it."""
    return Embedded(
        uri="test://embedded-resource", media_type="text/plain", text="This is an embedded resource content."
    )


@tool(effect="read")
async def test_multiple_content_types() -> list[str | Content]:
    """Give a text, an image and a resource."""
    embedded = Embedded(
        uri="test://mixed-content-resource", media_type="application/json", text='{"test":"data","value":123}'
    )
    return ["Multiple content types test:", PIXEL, embedded]


@tool(effect="read")
async def static_text() -> str:
    """Give the text of a resource."""
    return "This is the content of the static text resource."


@tool(effect="read")
async def static_binary() -> Image:
    """Give the bytes of a resource."""
    return PIXEL


@tool(effect="read")
async def template_data(id: str) -> str:
    """Give the data of one of many resources."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@tool(effect="read")
async def test_simple_prompt() -> str:
    """Give a prompt."""
    return "This is a simple prompt for testing."


@tool(effect="read")
async def test_prompt_with_arguments(
    arg1: Annotated[str, Field(description="First test argument", examples=["testing"])],
    arg2: Annotated[str, Field(description="Second test argument")],
) -> str:
    """Give a prompt with what was given."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@tool(effect="read")
async def test_prompt_with_embedded_resource(resourceUri: str) -> list[str | Content]:
    """Give a prompt about a resource, and the resource."""
    embedded = Embedded(uri=resourceUri, media_type="text/plain", text="Embedded resource content for testing.")
    return [embedded, "Please process the embedded resource above."]


@tool(effect="read")
async def test_prompt_with_image() -> list[str | Content]:
    """Give a prompt about an image, and the image."""
    return [PIXEL, "Please analyze the image above."]


class Name(BaseModel):
    name: str


class Color(BaseModel):
    color: str


class Consent(BaseModel):
    ok: bool


class Background(BaseModel):
    context: str


class Person(BaseModel):
    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


class Defaults(BaseModel):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


Titled = Annotated[Literal["value1"], Field(title="One")] | Annotated[Literal["value2"], Field(title="Two")]


class Enums(BaseModel):
    untitledSingle: Literal["option1", "option2"]
    titledSingle: Titled
    legacyEnum: Literal["opt1", "opt2"] = Field(json_schema_extra={"enumNames": ["Option One", "Option Two"]})
    untitledMulti: list[Literal["option1", "option2"]]
    titledMulti: list[Titled]


@tool(effect="read")
async def test_elicitation(ctx: Context, message: str) -> str:
    """Ask for a name and an address."""
    answer = await ctx.ask_client("person", message, Person)
    return f"User response: {answer.action}, {answer.data}"


@tool(effect="read")
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask with a default for everything."""
    answer = await ctx.ask_client("defaults", "Is this right?", Defaults)
    return f"Elicitation completed: action={answer.action}, content={answer.data}"


@tool(effect="read")
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask for choices, with titles and without."""
    answer = await ctx.ask_client("enums", "Which of these?", Enums)
    return f"Elicitation completed: action={answer.action}, content={answer.data}"


@tool(effect="read")
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Ask for a name, and greet."""
    answer = await ctx.ask_client("user_name", "What is your name?", Name)
    return f"Hello, {answer.data.name}!" if answer.data else "Hello!"


@tool(effect="read")
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Ask for a consent; the state that comes back is checked before this starts again."""
    answer = await ctx.ask_client("confirm", "Please confirm", Consent)
    return f"state-ok: {answer.action}"


@tool(effect="read")
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Ask for a consent, as the one before."""
    return (await ctx.ask_client("confirm", "Please confirm", Consent)).action


@tool(effect="read")
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask for a name, and then for a color."""
    name = await ctx.ask_client("step1", "Step 1: What is your name?", Name)
    color = await ctx.ask_client("step2", "Step 2: What is your favorite color?", Color)
    return f"{name.data and name.data.name} likes {color.data and color.data.color}."


@tool(effect="read")
async def test_input_required_result_prompt(ctx: Context) -> str:
    """Ask what a prompt is to be about."""
    answer = await ctx.ask_client("user_context", "What context should the prompt use?", Background)
    return f"Use this context: {answer.data.context}" if answer.data else "Use no context."


@tool(effect="read")
async def test_missing_capability(ctx: Context) -> str:
    """Need a client that can do what few can."""
    ctx.require_client("sampling")
    return "done"


_SHOWN: Final[set[str]] = set()
"""What is in play beside the rest, for this process."""


@tool(effect="read")
async def test_shown_at_times() -> str:
    """Be there at times."""
    return "here"


at_times = Capability("at_times", tools=[test_shown_at_times], instructions="At times, there is more.")


def more(ctx: Context) -> list[AnyRef]:
    """Give what is in play at the moment."""
    return [at_times.with_names()] if _SHOWN else []


@tool(effect="write")
async def test_trigger_tool_change() -> str:
    """Change the lists of tools and of prompts."""
    _SHOWN.symmetric_difference_update({"more"})
    return "changed"


@tool(effect="write")
async def test_trigger_prompt_change() -> str:
    """Change the lists of tools and of prompts."""
    _SHOWN.symmetric_difference_update({"more"})
    return "changed"


@tool(effect="read")
async def test_reconnection() -> str:
    """Take a moment, in which a client may come again."""
    await asyncio.sleep(PAUSE)
    return "done"


conformance: Capability = Capability(
    "conformance",
    uses=[more],
    tools=[
        test_simple_text,
        test_error_handling,
        test_tool_with_progress,
        test_streaming_elicitation,
        test_logging_tool,
        test_custom_headers,
        # No signature gives such a schema; here it is what came from elsewhere.
        replace(
            json_schema_2020_12_tool,
            arguments=Schema(TypeAdapter(Annotated[Contact, AfterValidator(reachable)]), CONTACT, closed=True),
        ),
        test_image_content,
        test_audio_content,
        test_embedded_resource,
        test_multiple_content_types,
        static_text,
        static_binary,
        template_data,
        test_simple_prompt,
        test_prompt_with_arguments,
        test_prompt_with_embedded_resource,
        test_prompt_with_image,
        test_elicitation,
        test_elicitation_sep1034_defaults,
        test_elicitation_sep1330_enums,
        test_input_required_result_elicitation,
        test_input_required_result_request_state,
        test_input_required_result_tampered_state,
        test_input_required_result_multi_round,
        test_input_required_result_prompt,
        test_missing_capability,
        test_trigger_tool_change,
        test_trigger_prompt_change,
        test_reconnection,
    ],
    mcp=[
        McpResource("test://static-text", static_text, media_type="text/plain"),
        McpResource("test://static-binary", static_binary, media_type="image/png"),
        McpResource("test://template/{id}/data", template_data, media_type="application/json"),
        McpPrompt(test_simple_prompt),
        McpPrompt(test_prompt_with_arguments),
        McpPrompt(test_prompt_with_embedded_resource),
        McpPrompt(test_prompt_with_image),
        McpPrompt(test_input_required_result_prompt),
    ],
)
