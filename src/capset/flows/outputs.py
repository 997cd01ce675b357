"""Output schemas of several blocks, combined from those of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union, cast

from typing_extensions import TypedDict

from capset.schemas.schema import Schema, schema_of


def either(owner: str, outputs: Sequence[Schema | None]) -> Schema | None:
    """Return the schema of the output of any one of them; ``None`` unless all are known."""
    known = [one for one in outputs if one is not None]
    if len(known) < len(outputs) or not known:
        return None
    if all(one.json_schema == known[0].json_schema for one in known):
        return known[0]
    annotation: Any = Union[tuple(one.annotation for one in known)]  # noqa: UP007  # of types known only here
    return schema_of(f"{owner}, its output", annotation, "serialization")


def by_name(owner: str, outputs: Mapping[str, Schema | None]) -> Schema | None:
    """Return the schema of an object with all outputs under their names; ``None`` unless all are known."""
    known = {name: one.annotation for name, one in outputs.items() if one is not None}
    if len(known) < len(outputs):
        return None
    return schema_of(f"{owner}, its output", cast("Any", TypedDict)("Outputs", known), "serialization")
