"""``capset diff`` over what a store keeps: links and envelopes by their ids."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from capset.evaluation.snapshot.turns import envelope_row, op_context
from capset.stores.base import PayloadRow
from tests.helpers.cli.support import Command, Run
from tests.helpers.cli.versions import in_store, keep
from tests.helpers.evaluation.compare.versions import agent, earlier, envelope_of, later

pytestmark = pytest.mark.spec("F31")
OP = op_context()


@pytest.fixture
def kept(run: Run, tmp_path: Path) -> dict[str, str]:
    """Keep two turns; return the ids of their links and of the earlier envelope, and lay the files down."""
    for name, turn in (("before", earlier()), ("after", later())):
        (tmp_path / f"{name}.json").write_text(turn.to_json(), encoding="utf-8")
    before, after = keep(earlier(), session="s-1"), keep(later(), session="s-1")
    envelope = in_store(lambda store: store.lineage.envelope_of(None, before))
    return {"before": before, "after": after, "envelope": envelope.id}


def test_ids_and_files_are_mixed_freely(run: Run, capset: Command, kept: dict[str, str]) -> None:
    expected = run("diff", "before.json", "after.json", "--json").json
    for side in (kept["before"], kept["envelope"], kept["envelope"].upper(), "before.json"):
        assert run("diff", side, "after.json", "--json").json == expected
    assert capset("diff", kept["before"], "after.json", "--json", "--exit-code").code == 3
    assert run("diff", kept["before"], kept["envelope"], "--exit-code").code == 0


def test_of_a_link_without_an_envelope_the_payloads_are_looked_up(run: Run, kept: dict[str, str]) -> None:
    expected = run("diff", "before.json", "after.json", "--json").json
    diff = run("diff", kept["before"], keep(later().link), "--json").json
    assert expected.pop("policies")
    assert expected["tools"].pop("gated")
    (changed,) = expected["tools"]["changed"]
    changed["gates"] = []
    assert diff["tools"].pop("gated") == [], "an envelope alone says what gates a tool"
    assert expected.pop("notes")
    assert diff.pop("notes") == []
    assert diff == expected


def test_what_an_envelope_leaves_out_is_looked_up(run: Run, kept: dict[str, str]) -> None:
    """The definition may be left out of an envelope, and is kept once for all turns."""
    small = keep(later(has_static=False))
    diff = run("diff", kept["before"], small, "--json").json
    assert diff == run("diff", "before.json", "after.json", "--json").json


def test_of_a_link_whose_payloads_nobody_kept_the_hashes_are_told(run: Run, kept: dict[str, str]) -> None:
    diff = run("diff", keep(envelope_of(agent()).link), kept["after"], "--json").json
    assert not {"policies", "prompt", "definition"} & diff.keys()


def test_an_envelope_without_a_link(run: Run, kept: dict[str, str]) -> None:
    row = envelope_row(later(), op=OP)
    in_store(lambda store: store.lineage.record_envelope(row))
    assert run("diff", row.id, "after.json", "--exit-code").code == 0


def test_an_id_that_nobody_has(run: Run, kept: dict[str, str]) -> None:
    nobody = OP.ids.new()
    done = run("diff", "before.json", nobody)
    assert done.code == 2
    assert done.said.startswith(f"error: there is no link and no envelope '{nobody}'")
    assert run("diff", nobody, "before.json", "--json").json["error"]["code"] == "not_found"
    theirs = keep(later(), org="other")
    assert run("diff", theirs, "before.json").code == 2, "what is another org's is not there"
    assert run("diff", theirs, "before.json", "--org", "other").code == 0
    assert run("diff", theirs, "before.json", "--org", "third").code == 2


def test_the_id_of_a_session_leads_to_its_latest_link(run: Run, kept: dict[str, str]) -> None:
    session = OP.ids.new()
    link = keep(later(), session=session)
    done = run("diff", "before.json", session)
    assert done.code == 2
    assert f"hint: it is a session; its latest link is {link}" in done.said


def test_an_envelope_of_another_link_is_not_taken_for_its_own(run: Run, kept: dict[str, str]) -> None:
    link = keep(later().link)
    wrong = envelope_row(earlier(), link=link, op=OP)
    in_store(lambda store: store.lineage.record_envelope(wrong))
    done = run("diff", link, "before.json")
    assert done.code == 1
    assert "contains another link" in done.said


@pytest.mark.parametrize("body", ["forged", "{", "[]", '{"runtime": 1}'])
def test_an_envelope_that_was_changed_in_the_store_is_not_compared(run: Run, kept: dict[str, str], body: str) -> None:
    link = keep(earlier().link)
    text = earlier().to_json().replace("Measure.", "Do harm.") if body == "forged" else body
    forged = replace(envelope_row(earlier(), link=link, op=OP), body=text)
    in_store(lambda store: store.lineage.record_envelope(forged))
    for named in (link, forged.id):
        done = run("diff", named, "before.json")
        assert done.code == 1
        assert done.said.startswith(f"error: the stored data for {named} was changed: ")


@pytest.mark.parametrize("text", ["{", "[]", '{"kind": "agent"}', "NaN"])
def test_a_payload_that_was_changed_in_the_store_is_not_compared(run: Run, text: str) -> None:
    link = earlier().link
    forged = PayloadRow(None, link.static_hash, "jcs-1", "agent", text)
    in_store(lambda store: store.lineage.record_payloads([forged], named_at="2026-01-01T00:00:00.000000Z"))
    link_id = keep(link)
    done = run("diff", link_id, link_id)
    assert done.code == 1
    assert done.said.startswith(f"error: the stored data for {link_id} was changed: ")
