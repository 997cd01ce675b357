"""Entity tags: versions of stored objects, in quotes (RFC 9110 §8.8.3, §13.1)."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from fastapi import Header
from pydantic import WithJsonSchema
from starlette.responses import Response

from capset.errors import Outdated
from capset_server.http.request_rules import HttpRefusal

_TAG: Final = re.compile('"[0-9]{1,18}"|[0-9]{1,18}')  # some clients omit the quotes

IfMatch = Annotated[
    str | None,
    WithJsonSchema({"type": "string", "pattern": f"^({_TAG.pattern})$"}),
    Header(description='Only if the current version is this one, such as "3"'),
]
IfNoneMatch = Annotated[
    str | None,
    WithJsonSchema({"type": "string", "enum": ["*"]}),
    Header(description="Only if the object does not exist: *"),
]

Unless = Annotated[
    str | None, Header(alias="If-None-Match", description='Only if the current version is not this one, such as "3"')
]
"""``If-None-Match`` of a read: a version that the client already has is not sent again."""
UNCHANGED: Final[dict[int | str, dict[str, Any]]] = {304: {"description": "The client already has this version"}}


def tag_of(version: int) -> str:
    """Return the entity tag of a version."""
    return f'"{version}"'


def is_known(version: int, unless: str | None) -> bool:
    """Return whether a client has a version: ``unless`` is ``*`` or has its tag, weak or strong (RFC 9110 §13.1.2)."""
    tags = [tag.strip() for tag in (unless or "").split(",")]
    return tags == ["*"] or tag_of(version) in [tag.removeprefix("W/") for tag in tags]


def unchanged(version: int) -> Response:
    """Return the response to a client that already has this version."""
    return Response(status_code=304, headers={"ETag": tag_of(version)})


def expected(if_match: str | None, if_none_match: str | None = None) -> int | None:
    """Return the version that a client expects: 0 if the object must not exist, ``None`` for any.

    Raises ``HttpRefusal`` for invalid headers, and ``Outdated`` for a condition that can never hold.
    """
    if if_none_match is not None:
        if if_none_match.strip() != "*":
            raise HttpRefusal(400, "invalid_header", "If-None-Match must be * here")
        if if_match is not None:
            raise Outdated("If-Match and If-None-Match: * cannot both hold")
        return 0
    if if_match is None:
        return None
    match = _TAG.fullmatch(if_match.strip())
    if match is None:
        raise HttpRefusal(400, "invalid_header", 'If-Match must be one entity tag from an ETag header, such as "3"')
    version = int(match[0].strip('"'))
    if version == 0:
        raise Outdated("If-Match: nothing has the version 0")  # to the stores, 0 means that the object does not exist
    return version
