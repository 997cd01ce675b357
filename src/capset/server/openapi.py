"""The OpenAPI 3.1 document of this server: FastAPI's, with what it cannot know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from starlette.routing import compile_path

from capset.kernel.registry import Registry
from capset.wire.problems import Problem


def describe(app: FastAPI, registry: Registry) -> dict[str, Any]:  # an OpenAPI document
    """Return the document: problem details instead of FastAPI's own errors, and the ids that are installed here."""
    document = app.openapi()
    schemas: dict[str, Any] = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs", {}))
    schemas["Problem"] = problem
    return document


def methods_by_path(document: dict[str, Any]) -> Callable[[str], list[str]]:
    """Return the function that tells the methods of a path: a router knows those of one of its routes only."""
    table = [(compile_path(path)[0], sorted(map(str.upper, found))) for path, found in document["paths"].items()]

    def methods(path: str) -> list[str]:
        return next((found for pattern, found in table if pattern.match(path)), list[str]())

    return methods
