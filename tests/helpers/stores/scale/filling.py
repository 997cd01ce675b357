"""Databases with much in them, filled by the engine itself; 99 of 100 rows belong to one organisation."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex

from capset.stores.sql.schema.tables import records
from tests.helpers.stores.sql.support import path_of, raw

LARGE: Final = "globex"
"""The organisation of nearly everything."""
SMALL: Final = "acme"

_VERSION: Final = (
    '\'{"name": "scribe", "description": "", "system_prompt": "", "instructions": [], "tags": [],'
    ' "capabilities": [], "status": "active"}\''
)
"""What a version was, as the store writes it."""


_IS_PENDING: Final = "i % 20 = 0"


@dataclass(frozen=True)
class Sizes:
    """How many rows there are of each kind."""

    agents: int
    sessions: int
    records: int


FULL: Final = Sizes(agents=10_000, sessions=100_000, records=1_000_000)
FEW: Final = Sizes(agents=1_000, sessions=5_000, records=30_000)


def sizes() -> Sizes:
    """Return the sizes to test with: all of them by ``make lab-scale``."""
    return FULL if os.environ.get("CAPSET_SCALE") == "full" else FEW


@contextmanager
def connected_to(url: str) -> Generator[Any]:
    """Connect as anybody could, each statement a transaction of its own."""
    path = path_of(url)
    if path is not None:
        with raw(path) as file:
            yield file
    else:
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            yield connection


def fill(url: str, counts: Sizes) -> None:
    """Fill the empty tables of a database."""
    is_file = path_of(url) is not None
    dialect = sqlite.dialect() if is_file else postgresql.dialect()
    with connected_to(url) as connection:
        if is_file:
            connection.execute("PRAGMA synchronous = OFF")
        indexes = sorted(records.indexes, key=lambda index: str(index.name))
        for index in indexes:
            connection.execute(f"DROP INDEX {index.name}")
        for table, count, columns in _tables(counts):
            values = {name: _translated(value, is_file=is_file) for name, value in columns.items()}
            rows = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
            insert = f"INSERT INTO {table} ({', '.join(values)}) {rows} SELECT {', '.join(values.values())} FROM n"
            # SQLite takes the WITH before the INSERT, PostgreSQL takes both.
            connection.execute(insert if not is_file else f"{rows} {insert.replace(rows, '')}")
        for index in indexes:
            connection.execute(str(CreateIndex(index).compile(dialect=dialect)))
        if not is_file:  # as its own daemon does in time; SQLite has nothing that does so
            connection.execute("VACUUM ANALYZE")


def _translated(value: str, *, is_file: bool) -> str:
    """Write ``{pad:EXPRESSION}`` and ``{time}`` in the words of an engine."""
    time = (
        "strftime('%Y-%m-%dT%H:%M:%S.000000Z', 1767225600 + i, 'unixepoch')"
        if is_file
        else "to_char(to_timestamp(1767225600 + i) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\".000000Z\"')"
    )
    value = value.replace("{blob}", "x'00'" if is_file else "'\\x00'::bytea")
    return (
        value.replace("{time}", time)
        .replace("{PAD}", "printf('%08d', " if is_file else "to_char(")
        .replace("{END}", ")" if is_file else ", 'FM00000000')")
    )


def _padded(prefix: str, expression: str) -> str:
    return f"'{prefix}' || {{PAD}}{expression}{{END}}"


def _tables(counts: Sizes) -> list[tuple[str, int, dict[str, str]]]:
    org = f"CASE WHEN i % 10007 * 7919 % 10007 < 100 THEN '{SMALL}' ELSE '{LARGE}' END"
    session, agent = _padded("session-", f"(i % {counts.sessions})"), _padded("agent-", f"(i % {counts.agents})")
    user, time, digest = "'user-' || (i % 1000)", "{time}", f"'{'0' * 64}'"
    hashes = dict.fromkeys(("static_hash", "runtime_hash", "prompt_hash"), digest)
    return [
        ("agents", counts.agents, {
            "id": _padded("agent-", "(i - 1)"), "org": org, "name": "'agent ' || (i % 100)", "description": "''",
            "system_prompt": "'Keep tidy notes.'", "instructions": "'[]'", "tags": "'[]'", "version": "3",
            "status": "CASE WHEN i % 10 = 0 THEN 'archived' ELSE 'active' END", "static_hash": digest,
            "created_at": time, "updated_at": time}),
        ("agent_capabilities", counts.agents, {
            "agent_id": _padded("agent-", "(i - 1)"), "position": "0", "capability_id": "'notes'"}),
        ("agent_versions", counts.agents, {
            "agent_id": _padded("agent-", "(i - 1)"), "version": "2", "org": org, "static_hash": digest,
            "definition": _VERSION, "created_at": time}),
        ("sessions", counts.sessions, {
            "id": _padded("session-", "(i - 1)"), "agent": "'scribe'", "definition": "'{}'", "static_hash": digest,
            "principal": user, "principal_kind": "'user'", "org": org, "created_at": time, "agent_id": agent,
            "agent_version": "3"}),
        ("session_events", counts.sessions, {
            "session": _padded("session-", f"((i / 50) * 50 % {counts.sessions})"),
            "seq": "i", "turn": "'t'", "type": "'turn.started'",
            "data": "'{}'", "created_at": time}),
        ("runs", counts.sessions, {
            "id": _padded("run-", "i"), "org": org, "principal": user, "principal_kind": "'user'", "kind": "'turn'",
            "session": session, "agent": "'agent ' || (i % 100)", "caller": "'{}'", "content": "'Tidy up.'",
            "correlation": _padded("c-", "i"), "created_at": time, "begun_at": time, "ended_at": time,
            "state": "CASE WHEN i % 20 = 0 THEN 'failed' ELSE 'succeeded' END", "attempts": "0",
            "usage": "'{\"steps\":2,\"calls\":1,\"tokens\":990,\"cost\":0.01,\"seconds\":2.5}'"}),
        ("api_keys", counts.agents, {
            "id": _padded("key-", "i"), "name": "'ci'", "digest": _padded("", "i"), "org": org, "principal": user,
            "principal_kind": "'user'", "permissions": "'[]'", "scopes": "'[]'", "makers": "'[]'", "created_at": time}),
        ("approvals", counts.sessions, {
            "id": _padded("approval-", "i"), "call": "'call'", "org": org, "session": session, "agent": "'scribe'",
            "principal": user, "tool": "'save'", "tool_hash": digest, "runtime_hash": digest,
            "arguments": "'{\"number\":' || (i % 3000) || '}'",
            "digest": digest, "reason": "''", "policies": "'[]'", "created_at": time,
            "expires_at": f"CASE WHEN {_IS_PENDING} THEN '2099-01-01T00:00:00.000000Z' ELSE {time} END",
            "status": f"CASE WHEN {_IS_PENDING} THEN 'pending' ELSE 'used' END", "scope": "'once'"}),
        ("replies", counts.sessions, {
            "session": session, "key": _padded("key-", "i"), "org": org, "digest": digest, "created_at": time,
            "status": "200"}),
        ("files", counts.sessions, {
            "session": _padded("session-", "((i / 50) * 50)"), "path": _padded("/a/", "i"), "parent": "'/a'",
            "is_directory": "false", "is_readonly": "false", "size_bytes": "0", "version": "1", "created_at": time,
            "modified_at": time, "org": org}),
        ("files", counts.sessions // 50, {
            "session": _padded("session-", "(i * 50)"), "path": "'/a'", "parent": "'/'", "is_directory": "true",
            "is_readonly": "false", "size_bytes": "0", "version": "1", "created_at": time, "modified_at": time,
            "org": org}),
        ("blobs", 1, {"org": f"'{LARGE}'", "digest": digest, "size": "1", "content": "{blob}"}),
        ("blob_parts", 1, {"org": f"'{LARGE}'", "digest": digest, "number": "0", "content": "{blob}"}),
        ("loose_parts", counts.agents, {
            "id": _padded("loose-", "i"), "org": org, "digest": _padded("", "i"),
            "until": "CASE WHEN i < 3 THEN '' ELSE '9' END"}),
        ("files", counts.sessions // 50, {
            "session": _padded("session-", "(i * 50)"), "path": "'/a/b.txt'", "parent": "'/a'",
            "is_directory": "false", "is_readonly": "false", "size_bytes": "1", "version": "1", "created_at": time,
            "modified_at": time, "org": f"'{LARGE}'", "digest": digest}),
        ("files", counts.sessions // 50, {
            "session": _padded("session-", "(i * 50)"), "path": "'/large'", "parent": "'/'",
            "is_directory": "false", "is_readonly": "false", "size_bytes": "1", "version": "1", "created_at": time,
            "modified_at": time, "org": f"'{LARGE}'", "parts": digest}),
        ("states", counts.sessions, {
            "scope": "'user'", "owner": user, "org": org, "name": _padded("name-", "i"), "value": "'1'",
            "version": "1", "updated_at": time}),
        ("documents", counts.sessions, {
            "scope": "'user'", "owner": user, "org": org, "name": "'texts'", "id": _padded("text-", "i"),
            "text": "'Two words'", "created_at": time}),
        ("registrations", counts.agents, {
            "id": _padded("reg-", "i"), "number": "1", "org": org, "agent_id": agent, "agent_name": "'scribe'",
            "static_hash": digest, "profile": "'jcs-1'", "created_at": time}),
        ("links", counts.sessions, {
            "id": _padded("link-", "i"), "org": org, "session": session, "agent_id": agent, "agent_name": "'scribe'",
            **hashes, "profile": "'jcs-1'", "tool_refs": "'[]'", "metadata": "'{}'", "created_at": time}),
        ("envelopes", counts.sessions, {
            "id": _padded("envelope-", "i"), "org": org, "link": _padded("link-", "i"), "schema_version": "'1'",
            "body": "'{}'", "created_at": time}),
        ("transitions", counts.sessions, {
            "org": org, "session": session, "from_link": _padded("link-", "i"),
            "to_link": _padded("link-", "i"), "reason": "''", "at": time}),
        ("payloads", counts.sessions, {
            "org": org, "hash": _padded("", "i"), "profile": "'jcs-1'", "kind": "'tool'", "payload": "'{}'",
            "named_at": time}),
        ("records", counts.records, {
            "seq": "i", "id": _padded("call-", "i"), "phase": "CASE WHEN i % 3 = 0 THEN 'intent' ELSE 'outcome' END",
            "time": time, "correlation": _padded("c-", "(i / 3)"), "principal": user, "principal_kind": "'user'",
            "org": org, "session": session, "agent": "'agent ' || (i % 100)", "capability": "'notes'",
            "tool": "'tool_' || (i % 50)", "effect": "'write'", "arguments": "'{\"text\":\"Some words\"}'",
            "arguments_digest": digest, "decision": "'allow'", "policies": "'[]'",
            "outcome": "CASE WHEN i % 20 = 0 THEN 'denied' ELSE 'succeeded' END",
            "code": "CASE WHEN i % 20 = 0 THEN 'permission_denied' END", "duration_us": "1000", **hashes,
            "profile": "'jcs-1'", "writer": "'w'", "previous": digest, "hash": digest,
            "approval": "CASE WHEN i % 500 = 0 THEN " + _padded("approval-", "i") + " END"}),
    ]  # fmt: skip
