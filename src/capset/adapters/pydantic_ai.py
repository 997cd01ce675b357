"""The old path of ``capset.adapters.frameworks.pydantic_ai``."""

from capset.adapters.frameworks.pydantic_ai import CapsetCapability, CapsetToolset

__all__ = ["CapsetCapability", "CapsetToolset"]
