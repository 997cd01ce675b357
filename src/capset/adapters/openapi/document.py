"""OpenAPI documents: parsed, bounded, with references resolved inside them only (spec 7, M8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast
from urllib.parse import unquote

from capset.adapters.openapi.yaml_text import parse_yaml
from capset.errors import DefinitionError
from capset.schemas.strict_json import parse_json
from capset.schemas.validation_errors import SchemaMismatch

MAX_DOCUMENT_BYTES: Final = 32 * 1024 * 1024
MAX_YAML_BYTES: Final = 4 * 1024 * 1024
"""YAML takes many times as long to be parsed as JSON."""
_MAX_CHAIN: Final = 16
"""How many references may lead to one another."""
_DIALECTS: Final = (
    "https://spec.openapis.org/oas/3.1/dialect/",
    "https://json-schema.org/draft/2020-12/schema",
)

Node = Mapping[str, Any]
"""An object of a document; its members have any JSON type."""


@dataclass(frozen=True, slots=True)
class ApiDocument:
    """The data of a document, which nothing may change, its version, and the URL that it came from, if any."""

    data: Node
    version: Literal["3.0", "3.1"]
    source: str | None = None

    def resolved(self, what: str, value: object) -> Node:
        """Return an object, or the one that it refers to.

        Raises ``DefinitionError``, starting with ``what``, if it is none, or its reference leads nowhere or in circles.
        """
        for _ in range(_MAX_CHAIN):
            node = as_node(what, value)
            if "$ref" not in node:
                return node
            value = self.at(what, node["$ref"])
        raise DefinitionError(f"{what}: more than {_MAX_CHAIN} references lead to one another")

    def at(self, what: str, reference: object) -> Any:  # JSON
        """Return what a reference leads to. Raises ``DefinitionError`` if that is not in this document."""
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise DefinitionError(
                f"{what}: its reference {reference!r:.200} leads out of the document, and nothing is fetched",
                hint="put what it refers to into the document: bundle it",
            )
        found: Any = self.data
        for step in unquote(reference[2:]).split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and name in found:
                found = cast("Node", found)[name]
            elif isinstance(found, list) and name.isascii() and name.isdigit() and int(name) < len(cast("Any", found)):
                found = cast("list[Any]", found)[int(name)]
            else:
                raise DefinitionError(f"{what}: its reference {reference!r:.200} leads to nothing")
        return found


def as_node(what: str, value: object) -> Node:
    """Return a value if it is an object. Raises ``DefinitionError``, starting with ``what``."""
    if not isinstance(value, Mapping):
        raise DefinitionError(f"{what}: an object was expected; got {value!r:.80}")
    return cast("Node", value)


def as_list(what: str, value: object) -> list[Any]:  # JSON
    """Return a value if it is a list, and an empty one for nothing. Raises ``DefinitionError``."""
    if value is not None and not isinstance(value, list):
        raise DefinitionError(f"{what}: a list was expected; got {value!r:.80}")
    return cast("list[Any]", value or [])


def as_text(what: str, value: object) -> str:
    """Return a value if it is text, and an empty one for nothing. Raises ``DefinitionError``."""
    if value is not None and not isinstance(value, str):
        raise DefinitionError(f"{what}: text was expected; got {value!r:.80}")
    return value or ""


def document_of(data: object, source: str | None = None) -> ApiDocument:
    """Return the document of parsed data. Raises ``DefinitionError`` for other versions than 3.0 and 3.1."""
    top = as_node("the document", data)
    given = top.get("openapi", top.get("swagger"))
    version = str(given) if isinstance(given, float) else given  # YAML without quotes
    for known in ("3.0", "3.1"):
        if isinstance(version, str) and (version == known or version.startswith(f"{known}.")):
            dialect = top.get("jsonSchemaDialect", _DIALECTS[0])
            if known == "3.1" and not (isinstance(dialect, str) and dialect.startswith(_DIALECTS)):
                raise DefinitionError(f"the document's schemas are of the dialect {dialect!r:.100}, and not of 2020-12")
            as_node("the document: its paths", top.get("paths", {}))
            return ApiDocument(top, cast("Any", known), source)
    raise DefinitionError(
        f"the document is not of OpenAPI 3.0 or 3.1; its version is {version!r:.40}",
        hint="converters make 3.0 of Swagger 2.0",
    )


def parse_document(data: bytes, where: str, source: str | None = None) -> ApiDocument:
    """Return the document of JSON or YAML text; ``where`` it is, for errors.

    Raises ``DefinitionError`` for text that is neither, or too large, and as ``document_of``.
    """
    if len(data) > MAX_DOCUMENT_BYTES:
        raise DefinitionError(f"{where} has more than {MAX_DOCUMENT_BYTES:,} bytes")
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        try:
            return document_of(parse_json(data.removeprefix(b"\xef\xbb\xbf")), source)
        except SchemaMismatch as error:
            raise DefinitionError(f"{where} cannot be read: {error}") from None
    if len(data) > MAX_YAML_BYTES:
        raise DefinitionError(f"{where} has more than {MAX_YAML_BYTES:,} bytes of YAML", hint="convert it to JSON")
    try:
        return document_of(parse_yaml(data.decode("utf-8-sig"), where), source)
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{where} is not UTF-8 text, at byte {error.start}") from None
