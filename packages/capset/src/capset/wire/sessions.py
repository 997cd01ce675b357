"""Sessions on the wire, and their files (spec 5, P8, P11)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Annotated, Any

from pydantic import ConfigDict, Field
from pydantic_core import from_json

from capset.definitions.calls.files import FileStat
from capset.definitions.resources import Scope
from capset.errors import StoreError
from capset.stores.base import SessionQuery, SessionRow, SessionStore
from capset.wire.agents import Version
from capset.wire.pages import fitting_items, read_page
from capset.wire.shapes import AttachedJson, Shape


class SessionInput(Shape):
    """Which agent a new session is of: the id of a stored one, or the name of one that is defined in code.

    ``invocation`` says for whom it is: only its hash is kept, and stands in the links of the session. ``context`` is
    kept and stands in their envelopes; it is JSON of any kind but secrets, at most 64 KiB. Policies see neither.
    """

    model_config = ConfigDict(strict=True)

    agent_id: Annotated[str, Field(min_length=1, max_length=200)]
    invocation: AttachedJson | None = None
    context: dict[str, Any] | None = None


class SessionPatch(Shape):
    """To which version of its agent a session is to move; null for the current one."""

    model_config = ConfigDict(strict=True)

    agent_version: Version | None


class SessionShape(Shape):
    """One conversation: whose, with which agent in which version, since when, and what it was made for."""

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


class SessionPageShape(Shape):
    """Some sessions, and the cursor of the next page, if there is one."""

    items: list[SessionShape]
    next: str | None = None


class StateShape(Shape):
    """What clients may read of a session's data, by scope and name; a scope with nothing to show is left out."""

    session: dict[str, Any] | None = None
    user: dict[str, Any] | None = None
    org: dict[str, Any] | None = None


def session_shape(row: SessionRow) -> SessionShape:
    """Return the wire shape of a session. Raises ``StoreError`` if its context was altered."""
    same = {name: getattr(row, name) for name in SessionShape.model_fields if name != "context"}
    return SessionShape(**same, context=context_of(row))


async def session_page_shape(store: SessionStore, query: SessionQuery) -> SessionPageShape:
    """Return the wire shape of a page of sessions."""
    items, following = await read_page(store.list, query, session_shape, attrgetter("id"))
    return SessionPageShape(items=items, next=following)


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
    """What is known of one file or directory."""

    path: str
    name: str
    is_directory: bool
    is_readonly: bool
    size_bytes: int
    version: int
    created_at: str
    modified_at: str


class FolderShape(Shape):
    """A directory: what it holds, directories first, then by name; or all below it by path.

    ``next`` is the cursor of the next page, if there is one.
    """

    path: str
    items: list[FileShape]
    next: str | None = None


class WrittenShape(Shape):
    """A file that was written, and whether it is new."""

    created: bool
    file: FileShape


def file_shape(stat: FileStat) -> FileShape:
    """Return the wire shape of a file or directory."""
    return FileShape(**{name: getattr(stat, name) for name in FileShape.model_fields})


def folder_shape(
    path: str, entries: Iterable[FileStat], *, recursive: bool, limit: int | None = None, cursor: str | None = None
) -> FolderShape:
    """Return the wire shape of one page of a directory, all of which is ``entries`` in its order.

    A cursor is the path that the page before ended with, with a slash after a directory's.
    """

    def place(path: str, is_directory: bool) -> tuple[bool, str]:
        return (not recursive and not is_directory, path)

    rest = list(entries)
    if cursor is not None:
        after = place(cursor.rstrip("/"), cursor.endswith("/"))
        rest = [entry for entry in rest if place(entry.path, entry.is_directory) > after]
    items = list(fitting_items(map(file_shape, rest[:limit])))
    following = None
    if len(items) < len(rest):
        following = items[-1].path + ("/" if items[-1].is_directory else "")
    return FolderShape(path=path, items=items, next=following)
