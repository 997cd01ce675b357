"""Comparison of API keys, people, agents and the log's own key with the acts that set them (spec 4, G60).

The chain records what was done, and the tables hold the current state. Someone who can write to the database can
change one without the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, cast

from sqlalchemy import Connection, select

from capset.errors import DefinitionError, counted
from capset.fingerprint.checkpoints import PublicKey
from capset.stores.base import AgentRow, KeyRow, PersonRow
from capset.stores.rows import row_digest
from capset.stores.sql.agents import agent_rows, agent_version
from capset.stores.sql.audit.checkpoints import SIGNER, first_seq, retired_keys
from capset.stores.sql.audit.records import undecodable_as_bytes
from capset.stores.sql.inserts import batches
from capset.stores.sql.keys import key_row
from capset.stores.sql.people import person_row
from capset.stores.sql.schema.tables import IS_ACT, agent_versions, agents, api_keys, people, records, settings

_Kind = Literal["key", "person", "agent"]
_NOUNS: Final[dict[_Kind, str]] = {"key": "API key", "person": "person", "agent": "agent"}
_SETTING_ACTS: Final[dict[str, _Kind]] = {
    "key.create": "key",
    "person.add": "person",
    "agent.create": "agent",
    "agent.change": "agent",
    "agent.archive": "agent",
}
_ENDING_ACTS: Final[dict[str, _Kind]] = {"key.revoke": "key", "person.remove": "person"}
_SIGNER_ACTS: Final = ("checkpoint_key.adopt", "checkpoint_key.succeed")


class _RowRef(NamedTuple):
    """A row: its kind, its id, and its version, which is 0 unless it is an agent."""

    kind: _Kind
    id: str
    version: int

    def __str__(self) -> str:
        version = f", version {self.version}" if self.kind == "agent" else ""
        return f"the {_NOUNS[self.kind]} {self.id}{version}"


class _SettingAct(NamedTuple):
    """The record of the act that set a row, and the digest of the row in it, if any."""

    seq: int
    digest: str | None


@dataclass(slots=True)
class _Acts:
    """The rows and signing keys that the acts of a log set, ended and replaced."""

    oldest: str | None
    """The time of the log's first record, if earlier ones were pruned."""
    made: dict[_RowRef, _SettingAct] = field(default_factory=dict[_RowRef, _SettingAct])
    ended: dict[tuple[_Kind, str], int] = field(default_factory=dict[tuple[_Kind, str], int])
    """The records that revoked keys and removed people."""
    newest: dict[str, _RowRef] = field(default_factory=dict[str, _RowRef])
    """The newest version of each agent."""
    signer: tuple[int, str] | None = None
    """The record that set the log's own key, and the id of the key."""
    retired: dict[str, int] = field(default_factory=dict[str, int])
    """The signing keys that were replaced, and the records that say so."""

    def may_be_pruned(self, time: str) -> bool:
        """Return whether an act from this time may have been pruned."""
        return self.oldest is not None and time < self.oldest


class ActComparison(NamedTuple):
    """The differences between rows and acts, and what could not be compared, each as a sentence."""

    problems: Sequence[str]
    notes: Sequence[str]


def compare_with_acts(connection: Connection) -> ActComparison:
    """Compare rows with the acts of a verified chain, in the connection's current transaction."""
    acts = _read_acts(connection)
    problems, without_act = dict[str, None](), dict[_RowRef, None]()
    visited, current = set[_RowRef](), dict[str, _RowRef]()
    for row, time in _rows(connection):
        ref = _ref_of(row)
        visited.add(ref)
        if ref.kind == "agent":
            current.setdefault(ref.id, ref)  # the current version comes first
        act = acts.made.get(ref)
        if (act is None and acts.may_be_pruned(time)) or (act is not None and act.digest is None):
            without_act[ref] = None
        elif act is None:
            problems[f"{ref} exists, but no act set it"] = None
        elif act.digest != row_digest(row):
            problems[f"{ref} differs from what record {act.seq} set"] = None
        problems.update(dict.fromkeys(_wrong_state(row, ref, acts)))
    for ref in acts.made.keys() - visited:
        if (ref.kind, ref.id) not in acts.ended or ref.kind == "key":
            problems[f"{ref} is missing, although record {acts.made[ref].seq} set it"] = None
    for ref in current.values():
        if (newest := acts.newest.get(ref.id, ref)) != ref:
            problems[f"{ref} is current, although record {acts.made[newest].seq} set version {newest.version}"] = None
    problems.update(dict.fromkeys(_wrong_signer(connection, acts)))
    lines = list(problems)[:20]  # enough to see what is wrong
    if (more := len(problems) - len(lines)) > 0:
        lines.append(f"further differences in {counted(more, 'row')}")
    return ActComparison(lines, _notes(list(without_act)))


def _read_acts(connection: Connection) -> _Acts:
    acts = _Acts(_oldest_time(connection))
    names = (*_SETTING_ACTS, *_ENDING_ACTS, *_SIGNER_ACTS)
    statement = select(records.c.seq, records.c.act, records.c.arguments).where(IS_ACT, records.c.act.in_(names))
    for seq, name, arguments in connection.execute(statement.order_by(records.c.seq)):
        details = cast("dict[str, Any]", json.loads(arguments))
        subject = str(details.get("id"))
        if name in _ENDING_ACTS:
            acts.ended[_ENDING_ACTS[name], subject] = seq
        elif name in _SIGNER_ACTS:
            acts.signer = seq, subject
            if isinstance(before := details.get("before"), str):
                acts.retired[before] = seq
        else:
            version = details.get("version")
            ref = _RowRef(_SETTING_ACTS[name], subject, version if type(version) is int else 0)
            digest = details.get("sha256")
            acts.made[ref] = _SettingAct(seq, digest if isinstance(digest, str) and len(digest) == 64 else None)
            acts.newest[subject] = ref
    return acts


def _oldest_time(connection: Connection) -> str | None:
    with undecodable_as_bytes(connection):
        if first_seq(connection) == 1:
            return None
    first = connection.execute(select(records.c.time).order_by(records.c.seq).limit(1)).scalar()
    return "~" if first is None else str(first)  # without records, all acts were pruned


def _rows(connection: Connection) -> Iterator[tuple[KeyRow | PersonRow | AgentRow, str]]:
    """Yield each key, person and agent version (the current one first), with the time when it was written."""
    for mapping in connection.execute(select(api_keys)).mappings().all():
        key = key_row(mapping)
        yield key, key.created_at
    for mapping in connection.execute(select(people)).mappings().all():
        person = person_row(mapping)
        yield person, person.created_at
    ids = connection.execute(select(agents.c.id)).scalars().all()
    for batch in batches(ids):
        statement = select(agents).where(agents.c.id.in_(batch))
        current = {row.id: row for row in agent_rows(connection, connection.execute(statement).mappings())}
        yield from ((row, row.updated_at) for row in current.values())
        versions = select(agent_versions).where(agent_versions.c.agent_id.in_(batch))
        for mapping in connection.execute(versions).mappings():
            row = agent_version(current[mapping["agent_id"]], mapping)
            yield row, row.updated_at


def _ref_of(row: KeyRow | PersonRow | AgentRow) -> _RowRef:
    if isinstance(row, AgentRow):
        return _RowRef("agent", row.id, row.version)
    return _RowRef("key" if isinstance(row, KeyRow) else "person", row.id, 0)


def _wrong_state(row: KeyRow | PersonRow | AgentRow, ref: _RowRef, acts: _Acts) -> Iterator[str]:
    """Yield the contradictions between the state of a row and later acts."""
    ended = acts.ended.get((ref.kind, ref.id))
    if isinstance(row, PersonRow) and ended is not None:
        yield f"{ref} exists, although record {ended} removed it"
    if isinstance(row, KeyRow) and ended is not None and row.revoked_at is None:
        yield f"{ref} is valid, although record {ended} revoked it"
    if (
        isinstance(row, KeyRow)
        and ended is None
        and row.revoked_at is not None
        and not acts.may_be_pruned(row.revoked_at)
    ):
        yield f"{ref} is revoked, but no act revoked it"


def _wrong_signer(connection: Connection, acts: _Acts) -> Iterator[str]:
    text = connection.execute(select(settings.c.value).where(settings.c.name == SIGNER)).scalar()
    try:
        signer = None if text is None else PublicKey.load(str(text)).id
    except DefinitionError:
        signer = "damaged"
    if acts.signer is not None and acts.signer[1] != signer:
        yield f"the log's key is {signer or 'not set'}, although record {acts.signer[0]} set it to {acts.signer[1]}"
    elif acts.signer is None and signer is not None and acts.oldest is None:
        yield f"the log's key is {signer}, but no act set it"
    for key in acts.retired.keys() - set(retired_keys(connection)):
        yield f"the key {key} may sign again, although record {acts.retired[key]} replaced it"


def _notes(refs: Sequence[_RowRef]) -> list[str]:
    if not refs:
        return []
    examples = ", ".join(str(ref).removeprefix("the ") for ref in refs[:3])
    beyond = ", …" if len(refs) > 3 else ""
    rows = f"{counted(len(refs), 'row')} ({examples}{beyond})"
    return [f"{rows} could not be compared: their acts were pruned or have no digest"]
