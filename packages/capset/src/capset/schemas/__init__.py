"""Schemas from pydantic types and JSON Schema: validation, defaults, strict JSON and validation errors."""
