"""The reference of the REST API, made of its OpenAPI document when the site is built.

A page for each tag has its operations and the objects that it alone uses; those that several use have their own pages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Final

from capset_server.app import make_api

LINES: Final = 260
"""The length of a page of objects, in lines, after which the next one begins."""
_HEAD: Final = """\
# The REST API

Made from the server's own OpenAPI 3.1 document, which every server gives at `/openapi.json`; clients can be
[generated](../../guide/serve.md#generated-clients) from it. The guide is [Serve](../../guide/serve.md).

Every request needs `Authorization: Bearer KEY`, but `/v1/healthz` and `/v1/readyz`. What cannot be served is
answered with [problem details](https://www.rfc-editor.org/rfc/rfc9457), `application/problem+json`, as
[Problem](#:Problem). Every answer has an `X-Correlation-Id`: that of the request, if it has one, or a new one; the
records of its calls have it too.
"""

_PROBLEM: Final = "application/problem+json"

Node = dict[str, Any]
"""A part of an OpenAPI document."""


def render() -> dict[str, str]:
    """Return the pages by the names of their files."""
    document: Node = make_api().state.document
    operations = [
        (operation["tags"][0], path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    texts = {
        tag: "\n".join("\n".join(_operation(path, method, operation)) for _, path, method, operation in group)
        for tag, group in groupby(operations, lambda operation: operation[0])
    }
    objects = {
        name: "\n".join(_object(name, schema)) for name, schema in sorted(document["components"]["schemas"].items())
    }
    places = _places(texts, objects)
    pages = {f"{tag}.md": [f"# REST: {tag}\n", text] for tag, text in texts.items()}
    for name, place in places.items():
        if place not in pages:
            pages[place] = [f"# REST: objects, from {name}\n", "What more than one part of the API uses.\n"]
        elif place.removesuffix(".md") in texts and len(pages[place]) == 2:
            pages[place].append("## Objects\n")
        pages[place].append(objects[name])
    summary = ["## Operations\n", "| | |", "|---|---|"]
    for tag, path, method, entry in operations:
        anchor = re.sub(r"[^\w -]", "", f"{method} {path}").replace(" ", "-")
        summary.append(
            f"| [`{method.upper()} {path}`]({tag}.md#{anchor.lower()}) | {_sentence(entry['description'])} |"
        )
    index = [_HEAD, "\n".join(summary) + "\n"]
    return {name: _linked("\n".join(parts), name, places) for name, parts in {"index.md": index, **pages}.items()}


def _places(texts: Mapping[str, str], objects: Mapping[str, str]) -> dict[str, str]:
    """Return the page of each object: that of the one tag that uses it, or one of those for all."""
    users: dict[str, set[str]] = {name: set() for name in objects}
    for tag, text in texts.items():
        remaining = _named(text)
        while remaining:
            name = remaining.pop()
            if tag not in users[name]:
                users[name].add(tag)
                remaining += _named(objects[name])
    places: dict[str, str] = {}
    lines, page = LINES, ""
    for name, text in objects.items():
        if len(users[name]) == 1:
            places[name] = f"{next(iter(users[name]))}.md"
            continue
        lines += text.count("\n")
        if lines > LINES:
            lines, page = text.count("\n"), f"objects-{name.lower()}.md"
        places[name] = page
    return places


def _named(text: str) -> list[str]:
    return re.findall(r"\]\(#:(\w+)\)", text)


def _linked(text: str, page: str, places: Mapping[str, str]) -> str:
    """Return a page with its links to objects made ones to their pages."""

    def link(match: re.Match[str]) -> str:
        place = places[match[1]]
        return f"]({'' if place == page else place}#{match[1].lower()})"

    return re.sub(r"\]\(#:(\w+)\)", link, text)


def _operation(path: str, method: str, operation: Node) -> Iterator[str]:
    yield f"## `{method.upper()} {path}`\n"
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
        description = _cell(response["description"])
        suffix = (
            ""
            if description == "Successful Response"
            else f" {description.removesuffix('.') if types else description}"
        )
        yield f"- **{status}**{suffix}{': ' if types else ''}{types}"
    yield f"- Problems: {', '.join(sorted(set(problems) - {'default'}))}\n"


def _parameter(parameter: Node) -> str:
    description = _told("required" if parameter["required"] else "", parameter.get("description", ""))
    return f"| `{parameter['name']}` | {parameter['in']} | {_type(parameter['schema'])} | {description} |"


def _body(operation: Node) -> Iterator[str]:
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        description = _cell(operation["requestBody"].get("description", ""))
        yield f"| (body) | body | {_content(kind, content)} | {description} |"


def _content(kind: str, content: Node) -> str:
    schema = content["schema"]
    return f"`{kind}` of {_type(schema)}" if "$ref" in schema or "anyOf" in schema else f"`{kind}`"


def _object(name: str, schema: Node) -> Iterator[str]:
    yield f"### {name}\n"
    yield f"{' '.join(schema.get('description', '').replace('``', '`').split())}\n"
    yield from ("| member | type | |", "|---|---|---|")
    for member, inner in schema.get("properties", {}).items():
        description = _told("" if member in schema.get("required", ()) else "optional", inner.get("description", ""))
        yield f"| `{member}` | {_type(inner)} | {description} |"
    yield ""


def _type(schema: Node) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#:{name})"
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(_type(option) for option in options))
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(choice)}`" for choice in schema["enum"])
    kind = schema.get("type", "any JSON")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    minimum, maximum = (_number(schema[key]) if key in schema else "" for key in ("minimum", "maximum"))
    if minimum and maximum:
        return f"{kind} {minimum}–{maximum}"
    return f"{kind} of at least {minimum}" if minimum else f"{kind} of at most {maximum}" if maximum else kind


def _number(value: float) -> str:
    return str(int(value) if value == int(value) else value)


def _told(needed: str, text: str) -> str:
    """Return what is said of a member, which begins in lower case after whether it is needed."""
    if needed and text[1:2].islower():
        text = text[0].lower() + text[1:]
    return _cell("; ".join(part for part in (needed, text) if part))


def _sentence(text: str) -> str:
    return re.split(r"\.\s", _cell(text))[0].rstrip(".")


def _cell(text: str) -> str:
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())
