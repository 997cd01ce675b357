"""The forms of ``policy``: when it is asked, and whether a call asks it again."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from capset import DefinitionError, Policy, Request, policy


def gate(request: Request) -> bool:
    return True


@pytest.mark.spec("F15")
def test_every_form_makes_the_same_policy() -> None:
    forms = [
        policy("gate", gate, binding="snapshot", phase="evaluate"),
        policy(id="gate", binding="snapshot", phase="evaluate")(gate),
        policy(binding="snapshot", phase="evaluate")(gate),
        Policy("gate", gate, "snapshot", "evaluate"),
    ]
    assert {(form.id, form.evaluate, form.binding, form.phase) for form in forms} == {
        ("gate", gate, "snapshot", "evaluate")
    }
    assert len(set(forms)) == len(forms), "policies are told apart by identity"
    plain = [policy(gate), policy()(gate), policy("gate", gate), Policy("gate", gate)]
    assert {(form.binding, form.phase) for form in plain} == {("live", "both")}


@pytest.mark.spec("F15", "F19")
@pytest.mark.parametrize(
    ("binding", "phase", "at_evaluation", "live"),
    [
        ("live", "both", True, True),
        ("live", "evaluate", True, False),
        ("live", "call", False, True),
        ("snapshot", "both", True, False),
        ("snapshot", "evaluate", True, False),
    ],
)
def test_binding_and_phase_say_who_asks(binding: Any, phase: Any, at_evaluation: bool, live: bool) -> None:
    gate_policy = policy("gate", gate, binding=binding, phase=phase)
    assert (gate_policy.is_asked_at_evaluation, gate_policy.is_live) == (at_evaluation, live)


@pytest.mark.spec("F15", "G7")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"binding": "late"}, "policy 'gate': binding must be one of"),
        ({"binding": None}, "policy 'gate': binding must be one of"),
        ({"binding": ["live"]}, "policy 'gate': binding must be one of"),
        ({"phase": "all"}, "policy 'gate': phase must be one of"),
        ({"phase": True}, "policy 'gate': phase must be one of"),
        ({"binding": "snapshot", "phase": "call"}, "policy 'gate' is asked at calls only"),
    ],
    ids=str,
)
def test_an_option_that_means_nothing_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        policy("gate", gate, **options)
    with pytest.raises(DefinitionError, match=message):
        policy(**options)(gate)


@pytest.mark.parametrize(
    "build",
    [
        lambda: policy("gate"),  # pyright: ignore[reportArgumentType]
        lambda: policy("gate", gate, id="other"),  # pyright: ignore[reportCallIssue]
        lambda: policy(gate, gate),  # pyright: ignore[reportArgumentType]
        lambda: policy(None, gate),  # pyright: ignore[reportArgumentType]
    ],
)
def test_half_a_form_and_two_of_one_thing_are_refused(build: Any) -> None:
    with pytest.raises(DefinitionError, match="function"):
        build()


@pytest.mark.parametrize("id", ["", "a b", "ä", "x" * 101])
def test_an_id_fits_its_grammar(id: str) -> None:
    with pytest.raises(DefinitionError, match="a policy's id must match"):
        policy(id, gate)


def test_a_policy_is_frozen() -> None:
    with pytest.raises((FrozenInstanceError, AttributeError)):
        policy(gate).phase = "call"  # pyright: ignore[reportAttributeAccessIssue]
