"""Two versions compared beneath their definitions, by the code of their tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from capset import Principal
from capset.evaluation.compare.comparison import diff_envelopes, diff_sides
from capset.evaluation.compare.report import format_diff_report
from capset.evaluation.compare.sides import stored_side
from capset.evaluation.snapshot.capture import capture
from capset.evaluation.snapshot.turns import record_turn
from capset.fingerprint.diff import ChangedCode, diff_links, explain_relationship
from capset.fingerprint.hashes import Ref
from capset.fingerprint.links import CapabilityLink, create_link
from capset.fingerprint.payload_changes import diff_payloads
from capset.fingerprint.payloads import code_payload
from capset.stores.base import make_store
from capset.wire.diffs import diff_shape
from tests.distributions import fresh_import
from tests.helpers.evaluation.code import OTHER, installed

pytestmark = pytest.mark.spec("F35", "F31")
ONE, TWO, THREE = ("1" * 64, "2" * 64, "3" * 64)


def link(*refs: Ref) -> CapabilityLink:
    return create_link(agent_id="a", agent_name="a", static_hash=ONE, prompt_hash=ONE, tool_refs=refs)


def test_tools_are_told_by_the_code_that_they_had_and_have() -> None:
    before = link(*(Ref(name, ONE, ONE) for name in "abcdef"), Ref("gone", ONE, ONE))
    after = link(
        *(Ref("a", ONE, TWO), Ref("b", TWO, TWO), Ref("c", ONE, THREE), Ref("d", ONE, ONE)),
        *(Ref("e", ONE), Ref("f", TWO, ONE), Ref("new", ONE, TWO)),
    )
    assert diff_links(before, after).code == (ChangedCode(ONE, TWO, ("a",), ("b",)), ChangedCode(ONE, THREE, ("c",)))
    assert diff_links(after, before).code == (ChangedCode(TWO, ONE, ("a",), ("b",)), ChangedCode(THREE, ONE, ("c",)))


def test_other_code_alone_is_a_difference_and_moves_no_hash() -> None:
    before, after = link(Ref("a", ONE, ONE)), link(Ref("a", ONE, TWO))
    diff, same = diff_links(before, after), diff_links(before, link(Ref("a", ONE, ONE)))
    assert (diff.hashes, diff.tools.differs, diff.tools.unchanged, diff.differs) == ((), False, 1, True)
    assert (same.code, same.differs) == ((), False)
    assert before.runtime_hash == after.runtime_hash
    assert "; different code." in explain_relationship(before, after)
    assert "; different tools in play and code." in explain_relationship(before, link(Ref("a", TWO, TWO)))


def test_a_reference_is_told_apart_by_name_and_hash_alone() -> None:
    assert Ref("a", ONE, ONE) == Ref("a", ONE)
    assert hash(Ref("a", ONE, ONE)) == hash(Ref("a", ONE))
    assert Ref("a", ONE, ONE).payload == {"name": "a", "hash": ONE}
    assert CapabilityLink.model_validate_json(link(Ref("a", ONE, TWO)).model_dump_json()).tool_refs[0].code == TWO


def test_payloads_of_code_differ_file_by_file() -> None:
    before, after = code_payload({"a.py": ONE, "b.py": ONE}), code_payload({"b.py": TWO, "c.py": ONE})
    assert [(change.path, change.kind) for change in diff_payloads(before, after)] == [
        ("files[a.py]", "removed"),
        ("files[b.py].digest", "changed"),
        ("files[c.py]", "added"),
    ]


@pytest.mark.realtime
@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/a.db"])
async def test_a_store_of_both_turns_tells_which_files_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    roots = (installed(tmp_path), installed(tmp_path, "1.1", sums=OTHER))
    adders = [fresh_import("tinybox.tools", root, monkeypatch).adder for root in roots]
    before, after = [await capture(adder, principal=Principal("ada")) for adder in adders]
    store = make_store(url.format(tmp_path))
    await store.open()
    try:
        ids = [(await record_turn(store, turn, session="s-1")).id for turn in (before, after)]
        diff = diff_sides(*[await stored_side(store.lineage, None, link_id) for link_id in ids])
        assert await store.lineage.transitions(None, "s-1") == (), "no runtime hash has moved"
    finally:
        await store.close()
    (code,) = diff.code
    (ours,), (theirs,) = before.link.tool_refs, after.link.tool_refs
    assert code.code == ChangedCode(ours.code or "", theirs.code or "", ("add",))
    path = "files[tinybox/sums.py].digest"
    assert [(change.path, change.kind) for change in code.changes or ()] == [(path, "changed")]
    assert f"same definition, different code: add\n    ~ {path}  " in format_diff_report(diff, width=200)
    assert [change["path"] for change in diff_shape(diff).plain()["code"][0]["changes"]] == [path]
    of_files = diff_envelopes(before.envelope, after.envelope)
    assert (of_files.differs, [code_change.changes for code_change in of_files.code]) == (True, [None])
    assert "changes" not in diff_shape(of_files).plain()["code"][0]
