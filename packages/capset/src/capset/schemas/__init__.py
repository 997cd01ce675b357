"""Schemas: pydantic types and JSON Schema described, validated and filled; strict JSON; validation errors."""
