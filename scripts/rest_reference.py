"""``python -m scripts.rest_reference``: write the reference of the REST API, from its OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from capset.server.app import make_api

PAGE: Final = Path(__file__).parents[1] / "docs" / "reference" / "rest.md"
_HEAD: Final = """\
# The REST API

Made from the server's own OpenAPI 3.1 document, which every server gives at `/openapi.json`; clients can be
[generated](../guide/serve.md#generated-clients) from it. The guide is [Serve](../guide/serve.md).

Every request needs `Authorization: Bearer KEY`, but `/v1/healthz` and `/v1/readyz`. What cannot be served is
answered with [problem details](https://www.rfc-editor.org/rfc/rfc9457), `application/problem+json`, as
[Problem](#problem). Every answer has an `X-Correlation-Id`: that of the request, if it has one, or a new one; the
records of its calls have it too.
"""

_PROBLEM: Final = "application/problem+json"

Node = dict[str, Any]
"""A part of an OpenAPI document."""


def render() -> str:
    """Return the page."""
    document: Node = make_api().state.document
    parts = [_HEAD]
    tag = ""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if operation["tags"][0] != tag:
                tag = operation["tags"][0]
                parts.append(f"## {tag.title()}\n")
            parts.append("\n".join(_operation(path, method, operation)))
    parts.append("## Objects\n")
    parts += ["\n".join(_object(name, schema)) for name, schema in sorted(document["components"]["schemas"].items())]
    return "\n".join(parts)


def _operation(path: str, method: str, operation: Node) -> Iterator[str]:
    yield f"### `{method.upper()} {path}`\n"
    yield f"{operation['description']}\n"
    rows = [*map(_parameter, operation.get("parameters", ())), *_body(operation)]
    if rows:
        yield from ("| parameter | in | type | |", "|---|---|---|---|", *rows, "")
    problems: list[str] = []
    for status, response in operation["responses"].items():
        content: Node = response.get("content", {})
        if content.get(_PROBLEM) == {"schema": {"$ref": "#/components/schemas/Problem"}}:
            problems.append(status)
            continue
        types = " or ".join(_content(kind, inner) for kind, inner in content.items())
        said = "" if response["description"] == "Successful Response" else f" {_cell(response['description'])}"
        yield f"- **{status}**{said}{': ' if types else ''}{types}"
    yield f"- Problems: {', '.join(sorted(set(problems) - {'default'}))}\n"


def _parameter(parameter: Node) -> str:
    said = (
        parameter.get("description", "")
        if not parameter["required"]
        else f"required; {parameter.get('description', '')}"
    )
    return f"| `{parameter['name']}` | {parameter['in']} | {_type(parameter['schema'])} | {_cell(said.strip('; '))} |"


def _body(operation: Node) -> Iterator[str]:
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        said = _cell(operation["requestBody"].get("description", ""))
        yield f"| (body) | body | {_content(kind, content)} | {said} |"


def _content(kind: str, content: Node) -> str:
    schema = content["schema"]
    return f"`{kind}` of {_type(schema)}" if "$ref" in schema or "anyOf" in schema else f"`{kind}`"


def _object(name: str, schema: Node) -> Iterator[str]:
    yield f"### {name}\n"
    yield f"{' '.join(schema.get('description', '').replace('``', '`').split())}\n"
    yield from ("| member | type | |", "|---|---|---|")
    for member, inner in schema.get("properties", {}).items():
        told = [inner["description"]] if "description" in inner else []
        needed = [] if member in schema.get("required", ()) else ["optional"]
        yield f"| `{member}` | {_type(inner)} | {_cell('; '.join(needed + told))} |"
    yield ""


def _type(schema: Node) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(_type(option) for option in options))
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(one)}`" for one in schema["enum"])
    kind = schema.get("type", "any JSON")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    bounds = [f"{schema[key]}" for key in ("minimum", "maximum") if key in schema]
    return f"{kind} {'–'.join(bounds)}".strip()


def _cell(text: str) -> str:
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
