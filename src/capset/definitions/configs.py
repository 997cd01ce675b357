"""The config of a capability as JSON: how it is stored, and how it comes back (spec 1, C1)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from capset.definitions.schemas import Schema, schema_of

_CACHED: Final = 1_000


@lru_cache(_CACHED)
def config_schema(model: type[BaseModel]) -> Schema:
    """Return the schema of a config: strict and closed, as that of arguments. Raises ``DefinitionError`` for none."""
    return schema_of(f"the config {model.__name__}", model, "validation")


def config_from(model: type[BaseModel], text: bytes) -> BaseModel:
    """Return the config that JSON text says. Raises pydantic's ``ValidationError``."""
    return config_schema(model).check_json(text)


def config_data(config: BaseModel) -> dict[str, Any]:  # JSON data
    """Return a config as JSON data that gives an equal one again.

    Raises ``ValueError`` for one that has no such form, such as one with values that its own model would refuse.
    """
    text = config.model_dump_json(by_alias=True, round_trip=True, warnings="error").encode()
    try:
        again = config_from(type(config), text)
    except ValidationError as error:
        raise ValueError(f"a {type(config).__name__} is not taken again as it was written") from error
    if again != config:
        raise ValueError(f"a {type(config).__name__} does not come back as it was written")
    return from_json(text, allow_inf_nan=False)
