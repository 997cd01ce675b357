"""OpenAPI documents: parsed, limited in size, with references resolved inside them only (spec 7, M8, M107)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast
from urllib.parse import unquote

from capset.errors import DefinitionError
from capset.schemas.strict_json import parse_json
from capset.schemas.validation_errors import SchemaMismatch
from capset_connect.openapi.nodes import Node, as_members, as_node
from capset_connect.openapi.swagger import upgraded_top
from capset_connect.openapi.yaml_text import parse_yaml

MAX_DOCUMENT_BYTES: Final = 32 * 1024 * 1024
_MAX_CHAIN: Final = 16
"""The maximum number of references that lead to one another."""
_DIALECTS: Final = (
    "https://spec.openapis.org/oas/3.1/dialect/",
    "https://spec.openapis.org/oas/3.2/dialect/",
    "https://json-schema.org/draft/2020-12/schema",
)
Version = Literal["2.0", "3.0", "3.1"]
_READ_AS: Final[Mapping[str, Version]] = {"2.0": "2.0", "3.0": "3.0", "3.1": "3.1", "3.2": "3.1"}
_BEGINNING: Final = 4_096


@dataclass(frozen=True, slots=True)
class ApiDocument:
    """The data of a document, which must not be modified, the version that it is read as, and its URL, if any.

    In version 2.0, servers and security schemes are converted to those of 3.0; everything else is unchanged.
    """

    data: Node
    version: Version
    source: str | None = None

    def resolved(self, label: str, value: object) -> Node:
        """Return an object, or the one that it refers to.

        Raises ``DefinitionError``, starting with ``label``, if it is not an object, or if its reference is circular or
        leads nowhere.
        """
        for _ in range(_MAX_CHAIN):
            node = as_node(label, value)
            if node.get("$ref") is None:
                return node
            value = self.at(label, node["$ref"])
        raise DefinitionError(f"{label}: more than {_MAX_CHAIN} references lead to one another")

    def at(self, label: str, reference: object) -> Any:  # JSON
        """Return the target of a reference. Raises ``DefinitionError`` if it is not in this document."""
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise DefinitionError(
                f"{label}: its reference {reference!r:.200} leads out of the document and is not fetched",
                hint="bundle the document, so that it contains everything that it refers to",
            )
        node: Any = self.data
        for step in unquote(reference[2:]).split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping) and name in node:
                node = cast("Node", node)[name]
            elif isinstance(node, list) and name.isascii() and name.isdigit() and int(name) < len(cast("Any", node)):
                node = cast("list[Any]", node)[int(name)]
            else:
                raise DefinitionError(f"{label}: its reference {reference!r:.200} leads to nothing")
        return node


def document_of(data: object, source: str | None = None) -> ApiDocument:
    """Return the document of parsed data. Raises ``DefinitionError`` unless its version is 2.0, 3.0, 3.1 or 3.2."""
    top = as_node("the document", data)
    declared = top.get("openapi") or top.get("swagger")
    # In YAML, a version without quotes is a number.
    version = _READ_AS.get(".".join(str(declared).split(".")[:2]))
    if version is None:
        raise DefinitionError(
            f"the document is not of OpenAPI 3.0, 3.1 or 3.2, nor of Swagger 2.0; its version is {declared!r:.40}"
        )
    dialect = top.get("jsonSchemaDialect") or _DIALECTS[0]
    if version == "3.1" and not (isinstance(dialect, str) and dialect.startswith(_DIALECTS)):
        raise DefinitionError(f"the document's schemas are of the dialect {dialect!r:.100}, and not of 2020-12")
    as_members("the document: its paths", top.get("paths"))
    return ApiDocument(upgraded_top(top) if version == "2.0" else top, version, source)


def parse_document(data: bytes, where: str, source: str | None = None) -> ApiDocument:
    """Return the document of JSON or YAML text; ``where`` names its source in errors.

    Raises ``DefinitionError`` for text that is neither, or too large, and as ``document_of`` does.
    """
    if len(data) > MAX_DOCUMENT_BYTES:
        raise DefinitionError(f"{where} has more than {MAX_DOCUMENT_BYTES:,} bytes")
    if data[:_BEGINNING].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
        return document_of(parse_yaml(data, where), source)
    try:
        return document_of(parse_json(data.removeprefix(b"\xef\xbb\xbf")), source)
    except SchemaMismatch as error:
        raise DefinitionError(f"{where} cannot be read: {error}") from None
