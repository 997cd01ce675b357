"""Sessions and their files on the wire (spec 5, P8, P11)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Annotated, Any

from pydantic import Field
from pydantic_core import from_json

from capset.definitions.calls.files import FileStat
from capset.definitions.resources import Scope
from capset.errors import StoreError
from capset.stores.base import SessionQuery, SessionRow, SessionStore
from capset.wire.agents import Version
from capset.wire.pages import fitting_items, read_page
from capset.wire.shapes import AttachedJson, PageShape, Shape, StrictShape


class SessionInput(StrictShape):
    """A new session with an agent: the id of a stored one, or the name of one that is defined in code.

    ``invocation`` says for whom the session is; only its hash is stored, and appears in the session's links.
    ``context`` is stored and appears in their envelopes. It is any JSON of at most 64 KiB, but must not contain
    secrets. Policies see neither.
    """

    agent_id: Annotated[str, Field(min_length=1, max_length=200)]
    invocation: AttachedJson | None = None
    context: dict[str, Any] | None = None


class SessionPatch(StrictShape):
    """The version of its agent that a session is to move to; null for the current one."""

    agent_version: Version | None


class SessionShape(Shape):
    """A conversation of a principal with a version of an agent, and the data that it was created with."""

    id: str
    agent: str
    agent_id: str | None = None
    agent_version: int | None = None
    static_hash: str
    principal: str
    principal_kind: str
    created_at: str
    invocation_hash: str | None = None
    context: dict[str, Any] | None = None


class SessionPageShape(PageShape[SessionShape]):
    """A page of sessions, and the cursor of the next page, if any."""


class StateShape(Shape):
    """The part of a session's data that clients may read, by scope and name. Empty scopes are absent."""

    session: dict[str, Any] | None = None
    user: dict[str, Any] | None = None
    org: dict[str, Any] | None = None


def session_shape(row: SessionRow, *, with_context: bool = True) -> SessionShape:
    """Return the wire shape of a session. Raises ``StoreError`` if its context was altered."""
    same = {name: getattr(row, name) for name in SessionShape.model_fields if name != "context"}
    return SessionShape(**same, context=context_of(row) if with_context else None)


async def session_page_shape(
    store: SessionStore, query: SessionQuery, *, with_contexts: bool = True
) -> SessionPageShape:
    """Return the wire shape of a page of sessions."""
    items, next_cursor = await read_page(
        store.list, query, lambda row: session_shape(row, with_context=with_contexts), attrgetter("id")
    )
    return SessionPageShape(items=items, next=next_cursor)


def context_of(row: SessionRow) -> dict[str, Any] | None:  # JSON data
    """Return the context that a session was created with. Raises ``StoreError`` if it was altered."""
    try:
        return None if row.context is None else from_json(row.context)
    except ValueError:
        raise StoreError(f"the session {row.id} was changed: its context is not JSON") from None


def state_shape(state: Mapping[Scope, Mapping[str, Any]]) -> StateShape:  # JSON data
    """Return the wire shape of a session's exposed state."""
    return StateShape.model_validate(state)


class FileShape(Shape):
    """A file or directory."""

    path: str
    name: str
    is_directory: bool
    is_readonly: bool
    size_bytes: int
    version: int
    created_at: str
    modified_at: str


class FolderShape(Shape):
    """A directory and its entries, directories first, then by name; or everything below it, by path.

    ``next`` is the cursor of the next page, if any.
    """

    path: str
    items: list[FileShape]
    next: str | None = None


class WrittenShape(Shape):
    """A written file, and whether it is new."""

    created: bool
    file: FileShape


def file_shape(stat: FileStat) -> FileShape:
    """Return the wire shape of a file or directory."""
    return FileShape.model_validate(stat, from_attributes=True)


def folder_shape(
    path: str, entries: Iterable[FileStat], *, recursive: bool, limit: int | None = None, cursor: str | None = None
) -> FolderShape:
    """Return the wire shape of one page of a directory. ``entries`` are all its entries, in order.

    A cursor is the last path of the previous page, followed by a slash if it is a directory.
    """

    def sort_key(path: str, is_directory: bool) -> tuple[bool, str]:
        return (not recursive and not is_directory, path)

    remaining = list(entries)
    if cursor is not None:
        after = sort_key(cursor.rstrip("/"), cursor.endswith("/"))
        remaining = [entry for entry in remaining if sort_key(entry.path, entry.is_directory) > after]
    items = list(fitting_items(map(file_shape, remaining[:limit])))
    next_cursor = None
    if len(items) < len(remaining):
        next_cursor = items[-1].path + ("/" if items[-1].is_directory else "")
    return FolderShape(path=path, items=items, next=next_cursor)
