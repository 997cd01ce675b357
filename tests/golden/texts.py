"""Tools and capabilities whose payloads hold texts of every script, and keys that sort in two ways."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, JsonValue

from capset import Agent, Capability, Tool, tool


class Signs(BaseModel):
    # U+FB33 stands before U+1F600 by code points, and after it by UTF-16 units.
    smile: int = Field(alias="\U0001f600")
    dalet: int = Field(alias="\ufb33")
    last_of_plane: str = Field(alias="\uffff")
    last_of_all: str = Field(alias="\U0010ffff")
    accented: str = Field(alias="\u00e9")
    control: str = Field("", alias="\x7f\t")


@tool
def astral_fields(signs: Signs) -> Signs:
    """Take a model with names from beyond the basic plane."""
    return signs


@tool
def astral_parameter(𠮷: str, 吉: str) -> str:  # noqa: PLC2401  # that is what it is for
    """Have a name that is written with a pair of surrogates."""
    return 𠮷 + 吉


@tool(description='\u0000\u0001\b\t\n\u000b\f\r\u001b\u001f "quoted" \\ / \u007f\u0080\u009f </script>')
def controls(text: str = '\x00\x1f\x7f\r\n\t\\"') -> str:
    return text


@tool(description="Caf\u00e9")
def composed(text: Annotated[str, Field(description="\u00c5ngstr\u00f6m, \ud55c")]) -> str:
    return text


@tool(description="Cafe\u0301")
def decomposed(text: Annotated[str, Field(description="A\u030angstro\u0308m, \u1112\u1161\u11ab")]) -> str:
    return text


@tool(description="\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d\u0924\u0947")
def scripts(
    text: Annotated[str, Field(description="\u0130\u0131I\u0069 \u00df\u1e9e \ufb01 \u01c5")] = "\u200b\ufeff",
) -> str:
    return text


@tool(description="\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1ff\U0001f1e6 \U0010ffff \ud7ff\ue000\uffff")
def emoji(sign: Annotated[str, Field(examples=["\U0001f600", "\u2764\ufe0f", {"\U0001f600": {"\uffff": []}}])]) -> str:
    return sign


TEXTS: Final[tuple[Tool[..., Any], ...]] = (
    astral_fields, astral_parameter, controls, composed, decomposed, scripts, emoji,
)  # fmt: skip


class Labels(BaseModel):
    labels: dict[str, JsonValue]


labelled = Capability("labelled", config=Labels, instructions="\U0001f600\n\u2028\x00")
LABELS: Final = Labels(
    labels={
        "\uffff": 1,
        "\U00010000": 2,
        "\ud7ff": 3,
        "\ue000": 4,
        "\x80": 5,
        "Z": 6,
        "a": 7,
        "\u00e9": 8,
        "1": 9,
        "": 0,
    }
)
storied = Capability(
    "storied",
    context=["\U0001f600", {"first": "\uffff", "empty": "", "none": None}, "caf\u00e9", "cafe\u0301"],
    files={"/\u65e5\u672c/\U0001f600.txt": "\U0001f600", "/\uffff.txt": "", "/a.txt": "\u00e9"},
)
polyglot = Agent(
    "polyglot",
    system_prompt="\u65e5\u672c \U0001f600 \x00\x1f\x7f\u2028",
    instructions=["\ud55c", "\u1112\u1161\u11ab"],
    uses=[storied],
)
