from __future__ import annotations

import hashlib
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from capset.definitions.calls.records import COLUMNS
from capset.fingerprint import chain
from capset.fingerprint.canonical import canonical, canonical_by_walk
from capset.fingerprint.chain import GENESIS, Verification, link_payload, seal, verify
from capset_testing.store_suite.support import entry
from tests.helpers.fingerprint.chain import links

INTEGERS = ("seq", "duration_us")
TEXTS = st.none() | st.text() | st.text(st.sampled_from('"\\/\b\f\n\r\t\0\x1f\x7f\u2028\ud7ff\ue000\uffff\U0001f600'))
# A record's columns with any value that the type of each allows.
columns = st.fixed_dictionaries(
    {name: st.integers(-(2**53), 2**53) if name in INTEGERS else TEXTS for name in COLUMNS if name != "hash"}
)


@pytest.mark.spec("G20")
@given(columns)
def test_the_short_way_of_writing_a_record_is_canonical_json(row: dict[str, Any]) -> None:
    payload = link_payload(row)
    assert canonical(payload) == canonical_by_walk(payload)
    assert seal(row)["hash"] == hashlib.sha256(canonical_by_walk(payload)).hexdigest()


@pytest.mark.spec("G20", "F1")
@given(columns, st.sampled_from(['{"$int":"9007199254740993"}', '{"$$int":"9007199254740993"}', "9007199254740993"]))
def test_a_record_is_no_object_that_looks_like_an_integer_and_old_chains_hold(row: dict[str, Any], text: str) -> None:
    values = {**entry("a").columns(), **dict.fromkeys(("arguments", "reason", "tool", "code"), text)}
    link = seal({**values, "seq": 1, "writer": "w", "previous": GENESIS})
    # As every RFC 8785 writes it, and as records were written before integers were told from objects like them.
    assert link["hash"] == hashlib.sha256(rfc8785.dumps(link_payload(link))).hexdigest()
    assert verify([link]) == Verification(1)
    payload = link_payload(row)
    exact = [value for value in payload.values() if not isinstance(value, int) or abs(value) < 2**53]
    if len(exact) == len(payload):
        assert canonical_by_walk(payload) == rfc8785.dumps(payload)


@pytest.mark.spec("G20")
def test_a_whole_record_is_written_the_short_way() -> None:
    (row,) = links(1)
    assert chain._flat(row) == canonical(link_payload(row))
    assert seal(dict(row)) == row, "its own hash is not covered"


@pytest.mark.spec("G20")
@pytest.mark.parametrize(
    "odd",
    [
        *({"seq": 2**53 + 1}, {"attempts": True}, {"duration_us": 1.5}, {"duration_us": "7"}),
        *({"reason": 7}, {"reason": -(2**60)}, {"reason": ["a"]}, {"additional": "column"}),
    ],
)
def test_what_no_record_holds_is_hashed_as_it_would_be_in_any_payload(odd: dict[str, Any]) -> None:
    row = {**links(1)[0], **odd}
    del row["hash"]
    assert seal(row)["hash"] == hashlib.sha256(canonical_by_walk(link_payload(row))).hexdigest()
    short = {name: value for name, value in row.items() if name not in ("reason", "org")}
    assert seal(short)["hash"] == hashlib.sha256(canonical_by_walk(link_payload(short))).hexdigest()


@pytest.mark.spec("G20")
def test_a_link_covers_every_column_that_is_not_null() -> None:
    row = links(1)[0]
    payload = link_payload(row)
    assert payload.pop("kind") == "record"
    assert payload == {name: value for name, value in row.items() if value is not None and name != "hash"}
    assert row["hash"] == hashlib.sha256(canonical({**payload, "kind": "record"})).hexdigest()


def test_an_empty_chain_and_a_sound_one_hold() -> None:
    for count in (0, 5):
        assert verify(links(count)) == Verification(count)
        assert verify(links(count)).ok
    assert "ok=True" in repr(verify([]))


@pytest.mark.spec("G22")
@given(
    st.integers(0, 4),
    st.sampled_from(COLUMNS),
    st.none() | st.text() | st.integers() | st.floats() | st.binary() | st.booleans(),
)
def test_a_change_of_any_column_to_anything_is_found(index: int, column: str, value: object) -> None:
    rows = links(5)
    if rows[index][column] == value:
        return
    rows[index][column] = value
    verification = verify(rows)
    assert (verification.ok, verification.checked) == (False, index)
    assert f"record {index + 1} " in str(verification.problem)


@pytest.mark.spec("G22")
@given(st.integers(0, 5), st.data())
def test_a_removal_an_insertion_and_a_reordering_are_found(index: int, data: st.DataObject) -> None:
    rows = links(6)
    removed = rows[:index] + rows[index + 1 :]
    assert verify(removed).ok is (index == 5)  # a removed tail needs a checkpoint
    inserted = [*rows[:index], rows[data.draw(st.integers(0, 5))], *rows[index:]]
    assert not verify(inserted).ok
    other = data.draw(st.integers(0, 5).filter(lambda number: number != index))
    rows[index], rows[other] = rows[other], rows[index]
    assert verify(rows).checked == min(index, other)
    assert not verify(rows).ok


@pytest.mark.spec("G22")
def test_a_chain_that_was_computed_anew_from_the_middle_breaks_where_it_meets_the_old_one() -> None:
    rows = links(5)
    rows[2]["tool"] = "another"
    seal(rows[2])
    verification = verify(rows)
    assert (verification.checked, verification.seq) == (3, 4)
    assert verification.problem == "record 4 does not follow the one before it: its 'previous' is another hash"
