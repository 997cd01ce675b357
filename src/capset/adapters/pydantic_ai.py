"""The old path of ``capset.adapters.frameworks.pydantic_ai``."""

from capset.adapters.frameworks.pydantic_ai import CapsetToolset

__all__ = ["CapsetToolset"]
