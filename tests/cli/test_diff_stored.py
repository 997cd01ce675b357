"""``capset diff`` over what a store keeps: links and envelopes by their ids."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from capset.evaluation.envelope import SnapshotEnvelope
from capset.fingerprint.canonical import canonical
from capset.fingerprint.links import CapabilityLink
from capset.fingerprint.payloads import Payload
from capset.ids import Ids
from capset.stores.base import EnvelopeRow, LineageStore, LinkRow, PayloadRow, make_store
from tests.cli.support import Command, Run
from tests.evaluation.versions import earlier, later

pytestmark = pytest.mark.spec("F31")
new_id = Ids().new
NOW = "2026-01-02T03:04:05.000Z"


def in_store(work: Callable[[LineageStore], Awaitable[Any]]) -> None:
    async def run() -> None:
        store = make_store("sqlite:///capset.db")
        await store.open()
        try:
            await work(store.lineage)
        finally:
            await store.close()

    asyncio.run(run())


def link_row(envelope: SnapshotEnvelope, **more: Any) -> LinkRow:
    own = {name: getattr(envelope.link, name) for name in CapabilityLink.model_fields}
    row: dict[str, Any] = {"id": new_id(), "org": None, "session": None, "metadata": "{}", "created_at": NOW}
    return LinkRow(**own | row | more)


def envelope_row(envelope: SnapshotEnvelope, link: LinkRow | None, **more: Any) -> EnvelopeRow:
    row: dict[str, Any] = {"id": new_id(), "org": None, "link": link and link.id, "schema_version": "1"}
    return EnvelopeRow(**row | {"body": envelope.to_json(), "created_at": NOW} | more)


def payload_rows(envelope: SnapshotEnvelope) -> list[PayloadRow]:
    assert envelope.static is not None
    known: Mapping[str, Payload] = {
        envelope.static.hash: envelope.static.payload,
        **{one.hash: one.payload for one in (*envelope.static.parts, *envelope.runtime.tools)},
    }
    return [
        PayloadRow(None, own, "jcs-1", payload["kind"], canonical(payload).decode()) for own, payload in known.items()
    ]


@pytest.fixture
def kept(run: Run, tmp_path: Path) -> dict[str, str]:
    """Keep two turns of one session, the earlier with its envelope; return the ids and lay the files down."""
    before, after = link_row(earlier(), session="s-1"), link_row(later(), session="s-1")
    envelope, payloads = envelope_row(earlier(), before), payload_rows(later())

    async def work(lineage: LineageStore) -> None:
        await lineage.record_turn(before, envelope)
        await lineage.record_turn(after, payloads=payloads)

    in_store(work)
    for name, one in (("before", earlier()), ("after", later())):
        (tmp_path / f"{name}.json").write_text(one.to_json(), encoding="utf-8")
    return {"before": before.id, "after": after.id, "envelope": envelope.id}


def test_ids_and_files_are_mixed_freely(run: Run, capset: Command, kept: dict[str, str]) -> None:
    expected = run("diff", "before.json", "after.json", "--json").json
    for one in (kept["before"], kept["envelope"], kept["envelope"].upper(), "before.json"):
        assert run("diff", one, "after.json", "--json").json == expected
    assert capset("diff", kept["before"], "after.json", "--json", "--exit-code").code == 3
    assert run("diff", kept["before"], kept["envelope"], "--exit-code").code == 0


def test_of_a_link_without_an_envelope_the_payloads_are_looked_up(run: Run, kept: dict[str, str]) -> None:
    expected = run("diff", "before.json", "after.json", "--json").json
    found = run("diff", kept["before"], kept["after"], "--json").json
    unknown = {"policies", "prompt"}
    assert {key: value for key, value in found.items() if key not in {"tools", "notes"}} == {
        key: value for key, value in expected.items() if key not in {"tools", "notes"} | unknown
    }
    for kind in ("came", "went"):
        assert found["tools"][kind] == expected["tools"][kind]
    (changed,), (known,) = found["tools"]["changed"], expected["tools"]["changed"]
    assert changed["changes"] == known["changes"]
    assert (changed["gates"], found["tools"]["gated"]) == ([], []), "an envelope alone says what gates a tool"


def test_what_an_envelope_leaves_out_is_looked_up(run: Run, kept: dict[str, str]) -> None:
    """The definition may be left out of an envelope, and is kept once for all turns."""
    row = link_row(later())
    small, payloads = envelope_row(later(has_static=False), row), payload_rows(later())
    in_store(lambda lineage: lineage.record_turn(row, small, payloads=payloads))
    found = run("diff", kept["before"], row.id, "--json").json
    assert found == run("diff", "before.json", "after.json", "--json").json


def test_an_envelope_without_a_link(run: Run, kept: dict[str, str]) -> None:
    row = envelope_row(later(), None)
    in_store(lambda lineage: lineage.record_envelope(row))
    assert run("diff", row.id, "after.json", "--exit-code").code == 0


def test_an_id_that_nobody_has(run: Run, kept: dict[str, str]) -> None:
    nobody = new_id()
    done = run("diff", "before.json", nobody)
    assert done.code == 2
    assert done.said.startswith(f"error: there is no link and no envelope '{nobody}'")
    assert run("diff", nobody, "before.json", "--json").json["error"]["code"] == "not_found"
    other = link_row(later(), org="other")
    in_store(lambda lineage: lineage.record_turn(other))
    assert run("diff", other.id, "before.json").code == 2, "what is another org's is not there"


def test_the_id_of_a_session_leads_to_its_latest_link(run: Run, kept: dict[str, str]) -> None:
    session = new_id()
    row = link_row(later(), session=session)
    in_store(lambda lineage: lineage.record_turn(row))
    done = run("diff", "before.json", session)
    assert done.code == 2
    assert f"hint: it is a session; its latest link is {row.id}" in done.said


def test_an_envelope_of_another_link_is_not_taken_for_its_own(run: Run, kept: dict[str, str]) -> None:
    row = link_row(later())
    wrong = envelope_row(earlier(), row)
    in_store(lambda lineage: lineage.record_turn(row, wrong))
    done = run("diff", row.id, "before.json")
    assert done.code == 1
    assert "holds another link" in done.said


@pytest.mark.parametrize("body", [earlier().to_json().replace("Measure.", "Do harm."), "{", "[]", '{"runtime": 1}'])
def test_an_envelope_that_was_changed_in_the_store_is_not_compared(run: Run, kept: dict[str, str], body: str) -> None:
    row = link_row(earlier())
    forged = envelope_row(earlier(), row, body=body)
    in_store(lambda lineage: lineage.record_turn(row, forged))
    for named in (row.id, forged.id):
        done = run("diff", named, "before.json")
        assert done.code == 1
        assert done.said.startswith(f"error: what is kept for {named} was changed: ")


@pytest.mark.parametrize("text", ["{", "[]", '{"kind": "agent"}', "NaN"])
def test_a_payload_that_was_changed_in_the_store_is_not_compared(run: Run, kept: dict[str, str], text: str) -> None:
    row = link_row(earlier())
    forged = PayloadRow(None, row.static_hash, "jcs-1", "agent", text)
    in_store(lambda lineage: lineage.record_turn(row, payloads=[forged]))
    done = run("diff", row.id, "before.json")
    assert done.code == 1
    assert done.said.startswith(f"error: what is kept for {row.id} was changed: ")
