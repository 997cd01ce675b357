"""Rows of lineage for the checks: all of one org, agent and session unless given otherwise."""

from __future__ import annotations

from capset.fingerprint.hashes import Ref
from capset.stores.base import EnvelopeRow, LinkRow, PayloadRow
from capset.testing.store_suite.support import NOW


def link_row(id: str, *, session: str | None = "session-1", runtime: str = "a", org: str | None = "acme") -> LinkRow:
    """Return a link; its runtime hash repeats the digit ``runtime``."""
    return LinkRow(
        id=id,
        org=org,
        session=session,
        agent_id="agent-1",
        agent_name="scribe",
        static_hash="1" * 64,
        runtime_hash=runtime * 64,
        prompt_hash="2" * 64,
        invocation_hash=None,
        profile="jcs-1",
        tool_refs=(Ref("find_note", "3" * 64), Ref("save_note", "4" * 64)),
        metadata="{}",
        created_at=NOW,
    )


def envelope_row(id: str, link: str | None = None) -> EnvelopeRow:
    """Return an envelope of a link."""
    return EnvelopeRow(id, "acme", link, "1", '{"schema_version": "1"}', NOW)


def payload_row(number: int) -> PayloadRow:
    """Return a payload whose hash is made of a number."""
    return PayloadRow("acme", f"{number:064x}", "jcs-1", "tool", f'{{"kind":"tool","name":"tool {number}"}}')
