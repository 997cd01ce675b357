"""The JSON Schema of configuration files, for editors (spec 4, G27)."""

from __future__ import annotations

from typing import Any, Final

from capset.adapters.config_file.shapes import ConfigurationShape
from capset.wire.agent_schema import DIALECT, plain_schema

TITLE: Final = "A capset configuration file"


def configuration_schema() -> dict[str, Any]:  # a JSON Schema's values are of every JSON type
    """Return the schema of configuration files, in both of their forms."""
    return {"$schema": DIALECT, **plain_schema(ConfigurationShape.model_json_schema()), "title": TITLE}
