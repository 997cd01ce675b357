"""What several rules demand together: never less than one of them alone (spec 4, G46, G48)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Principal
from capset.definitions.governance.approvals import Answer, ApprovalRow
from capset.errors import Conflict, PermissionDenied, StoreError
from capset.ext import Governance
from capset.kernel.governance.approval_decisions import apply_answer, refusal_of, repetition_reason
from capset.kernel.governance.approval_needs import (
    ApprovalNeeds,
    ApproverNeed,
    approvals_of,
    has_enough_approvals,
    round_of,
)
from capset_testing.store_suite.support import approval_row

BEA = Principal("bea", org="acme")
PERMISSIONS = ("a:b", "c:d", "e:f")
VALUES = st.sampled_from(["x", "y", 1, 1.0, True])
NAMES = st.sampled_from(["department", "region"])
NEEDS = st.builds(
    ApproverNeed,
    st.none() | st.sampled_from(PERMISSIONS),
    st.dictionaries(NAMES, st.lists(VALUES, max_size=2), max_size=2),
    st.just([]),
    st.none() | st.just(60.0),
    st.none() | st.sampled_from(PERMISSIONS),
)
DECIDERS = st.builds(
    lambda name, permissions, attributes: Principal(name, org="acme", permissions=permissions, attributes=attributes),
    st.sampled_from(["ann", "ben", "cat", "dan"]),
    st.frozensets(st.sampled_from(PERMISSIONS)),
    st.dictionaries(NAMES, VALUES, max_size=2),
)
MADE = st.builds(
    lambda name, kind, makers: Principal(name, kind=kind, org="acme", makers=makers),
    st.sampled_from(["ann", "ben", "cat", "dan"]),
    st.sampled_from(["user", "agent", "org"]),
    st.lists(st.sampled_from(["user:ann", "agent:ben", "user:eve", "org:fay"]), max_size=2, unique=True),
)
NOW = "2026-01-01T00:00:01.000000Z"
ATTEMPTS = st.tuples(DECIDERS, st.sampled_from([None, {"n": 1}, {"n": 2}]), st.none() | st.integers(0, 3))
ROW = replace(approval_row("id-1"), created_at="2026-01-01T00:00:00.000000Z", expires_at="2027-01-01T00:00:00.000000Z")
START = 1_767_225_600 * 1_000_000_000
TIMES = st.sampled_from(["2026-01-01T00:00:59.999999Z", "2026-01-01T00:01:00.000000Z"])


def row(*rules: ApproverNeed, **more: Any) -> ApprovalRow:
    return replace(ROW, needs=ApprovalNeeds(rules, **more).to_json())


@pytest.mark.spec("G46")
@given(st.lists(NEEDS, max_size=4), NEEDS, DECIDERS, TIMES)
def test_one_more_rule_allows_no_more(rules: list[ApproverNeed], more: ApproverNeed, by: Principal, now: str) -> None:
    def may(*needs: ApproverNeed) -> bool:
        return refusal_of(row(*needs), by, Governance(), now) is None

    assert may(*rules, more) == (may(*rules) and may(more))
    assert may(*rules, more) == may(more, *rules)
    assert may(*rules) == all(map(may, rules))


@pytest.mark.spec("G46", "G49")
@given(NEEDS, DECIDERS)
def test_time_takes_nothing_away_and_permissions_neither(rule: ApproverNeed, by: Principal) -> None:
    early, late = "2026-01-01T00:00:00.000001Z", "2026-01-01T00:02:00.000000Z"
    everything = by.with_permissions(PERMISSIONS)
    for now in (early, late):
        if refusal_of(row(rule), by, Governance(), now) is None:
            assert refusal_of(row(rule), by, Governance(), late) is None
            assert refusal_of(row(rule), everything, Governance(), now) is None


@given(st.lists(NEEDS, max_size=3), st.integers(1, 10), st.booleans(), st.none() | st.floats(1, 100))
def test_needs_are_read_as_they_were_written(
    rules: list[ApproverNeed], approvals: int, forbid_own: bool, expires_after: float | None
) -> None:
    needs = ApprovalNeeds(tuple(rules), approvals, forbid_own, expires_after)
    assert ApprovalNeeds.of_row(replace(ROW, needs=needs.to_json())).to_json() == needs.to_json()


@pytest.mark.spec("G48")
@given(st.integers(1, 4), st.lists(ATTEMPTS, max_size=14))
def test_a_request_is_approved_by_so_many_different_principals_of_the_same_arguments(
    needed: int, attempts: list[tuple[Principal, dict[str, int] | None, int | None]]
) -> None:
    """Compared with a model that knows only who has approved which arguments since they were last changed."""
    request, approvers, now = row(approvals=needed), set[str](), None
    for by, arguments, number in attempts:
        modification = request.modified if number is not None else (arguments and f'{{"n":{arguments["n"]}}}')
        answer = Answer(True, arguments=arguments if number is None else None, round=number)
        before = request
        try:
            request = apply_answer(request, answer, by, Governance(), START)
        except Conflict:
            is_stale = number is not None and number != round_of(before)
            assert is_stale or (by.id in approvers and modification == now)
            continue
        if modification != now:
            approvers, now = set(), modification
            assert round_of(request) == round_of(before) + 1
        assert by.id not in approvers
        approvers.add(by.id)
        assert {approval.by.removeprefix("user:") for approval in approvals_of(request)} == approvers
        assert (request.status, request.modified) == ("approved" if len(approvers) >= needed else "pending", now)
        assert has_enough_approvals(request) == (request.status == "approved")
        if request.status == "approved":
            break


@pytest.mark.spec("G17", "G48", "T7")
@given(MADE, MADE)
def test_who_made_a_key_counts_as_its_holder_whatever_their_kinds_are(first: Principal, second: Principal) -> None:
    def has_made(maker: Principal, other: Principal) -> bool:
        return maker.id in {name.partition(":")[2] for name in other.makers}

    request = replace(
        ROW, principal=f"{first.kind}:{first.id}", makers=json.dumps(first.makers) if first.makers else None
    )
    is_one = first.id == second.id or has_made(first, second) or has_made(second, first)
    assert (refusal_of(request, second, Governance(), NOW) is not None) == is_one
    assert refusal_of(request, second, Governance(own_approvals=True), NOW) is None
    approvals = approvals_of(apply_answer(row(approvals=2), Answer(True), first, Governance(), START))
    assert (repetition_reason(approvals, second) is not None) == is_one
    bot = Principal("bot", kind="agent", org="acme", makers=["user:zoe"])
    assert (repetition_reason(approvals, bot.acting_for(second)) is not None) == is_one
    assert {*bot.acting_for(first).makers} == {"user:zoe", *first.makers}
    assert refusal_of(request, bot.acting_for(first), Governance(), NOW) is not None


@pytest.mark.spec("G17", "T7")
@pytest.mark.parametrize(
    ("by", "makers"), [("x for ada", []), ("x for user:ada", []), ("x", ["user:y for ada"]), ("ada", ["user:y"])]
)
def test_no_name_hides_who_is_behind_it(by: str, makers: list[str]) -> None:
    request = replace(ROW, principal="user:ada")
    assert refusal_of(request, Principal(by, org="acme", makers=makers), Governance(), NOW) is not None


def test_an_anonymous_principal_approves_nothing() -> None:
    with pytest.raises(PermissionDenied, match="an anonymous principal cannot"):
        apply_answer(ROW, Answer(True), Principal.anonymous(), Governance(), START)


@pytest.mark.parametrize(
    ("column", "texts", "read", "problem"),
    [
        ("needs", ["{", "[]", "{}", '{"rules":[3]}', '{"rules":3}'], ApprovalNeeds.of_row, "what its approvals need"),
        ("approvals", ["{", "3", '[{"by":"x"}]', "[3]"], approvals_of, "its approvals"),
        ("makers", ["{", "3", "[3]"], lambda row: refusal_of(row, BEA, Governance(), NOW), "the makers of its key"),
    ],
)
def test_tampering_is_named(column: str, texts: list[str], read: Callable[[ApprovalRow], object], problem: str) -> None:
    for text in texts:
        with pytest.raises(StoreError, match=f"id-1 was changed: {problem} cannot be read"):
            read(replace(ROW, **{column: text}))
