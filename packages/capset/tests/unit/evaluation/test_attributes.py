"""Attributes of principals in what is kept of an evaluation, and in what is made of that again (spec 2, F27, F34)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from capset import Agent, Capability, Principal, Request, deny, policy
from capset.errors import DefinitionError, HydrationRefused
from capset.evaluation.compare.comparison import diff_envelopes
from capset.evaluation.replay.evaluation import MissingTool, principal_of, replay
from capset.evaluation.snapshot.capture import capture, capture_runtime, envelope_of
from capset.evaluation.snapshot.envelope import SnapshotEnvelope, read_envelope
from capset.evaluation.snapshot.hydrate import hydrate
from capset.kernel.governance.redaction import redactor_of
from tests.helpers.evaluation.agents import make

pytestmark = pytest.mark.spec("F34", "F27")


@policy
def pro(request: Request) -> Any:
    """Let the tier pro through."""
    return request.principal.attributes.get("tier") == "pro" or deny("this needs the tier pro")


AGENT = Agent("librarian", uses=[Capability("notes", tools=[make("plain"), make("export", pro)])])
SAID: dict[str, Any] = {"tier": "pro", "level": 3, "share": 1.0, "beta": True, "manager": None}
ADA = Principal("ada", org="acme", permissions=["notes:read"], attributes=SAID)
BOT = Principal("bot", kind="agent", org="acme", attributes={"tier": "free"}).acting_for(ADA)


async def stored(principal: Principal, **more: Any) -> SnapshotEnvelope:
    return read_envelope((await capture(AGENT, principal=principal, **more)).envelope.to_json())


@pytest.mark.parametrize(
    "principal", [ADA, BOT, Principal("bot", org="acme").acting_for(BOT), Principal("bot").acting_for(Principal("x"))]
)
async def test_an_envelope_has_all_of_who_acted(principal: Principal) -> None:
    envelope = await stored(principal)
    assert principal_of(envelope) == principal
    replayed = await replay(envelope, AGENT)
    assert (replayed.differs, replayed.diff.notes, replayed.now.envelope) == (False, (), envelope)


async def test_what_has_none_is_written_as_ever() -> None:
    envelope = await stored(Principal("ada", permissions=["notes:read"]))
    principal = json.loads(envelope.to_json())["runtime"]["toolkit_context"]["principal"]
    assert principal == {"id": "ada", "kind": "user", "org": None, "permissions": ["notes:read"]}


@pytest.mark.spec("F11")
async def test_they_are_in_no_hash() -> None:
    first, other = await stored(ADA), await stored(Principal("ada", attributes={**SAID, "level": 4}))
    assert (first.link, first.static) == (other.link, other.static)


def ada_with(**changed: Any) -> Principal:
    return Principal("ada", org="acme", permissions=ADA.permissions, attributes={**SAID, **changed})


FREE_BOT, FREE_ADA = (Principal(name, org="acme", attributes={"tier": "free"}) for name in ("bot", "ada"))


@pytest.mark.parametrize(
    ("first", "other"),
    [
        *((ADA, ada_with(**changed)) for changed in ({"tier": "free"}, {"level": 3.0}, {"share": 1}, {"beta": 1})),
        (ADA, Principal("ada", org="acme", permissions=ADA.permissions)),
        (ADA, ada_with().acting_for(ADA)),
        *((BOT, other) for other in (FREE_BOT.acting_for(FREE_ADA), FREE_BOT, FREE_ADA.acting_for(FREE_BOT))),
        (BOT, FREE_BOT.acting_for(Principal("desk", org="acme"))),
    ],
)
async def test_nobody_takes_over_what_policies_said_of_other_attributes(first: Principal, other: Principal) -> None:
    for then, now in ((first, other), (other, first)):
        with pytest.raises(HydrationRefused, match="the principal has other attributes than the envelope's"):
            await hydrate(await stored(then), AGENT, principal=now)


@pytest.mark.parametrize("has_principal", [True, False])
async def test_an_older_envelope_is_for_principals_without(has_principal: bool) -> None:
    data = json.loads((await stored(Principal("ada"))).to_json())
    if not has_principal:
        del data["runtime"]["toolkit_context"]["principal"]
    envelope = read_envelope(json.dumps(data))
    for principal in (Principal("ada"), Principal("bot").acting_for(Principal("ada"))):
        assert set((await hydrate(envelope, AGENT, principal=principal)).tools) == {"plain"}
    for principal in (ADA, Principal("bot", org="acme").acting_for(ADA)):
        with pytest.raises(HydrationRefused, match="the principal has other attributes"):
            await hydrate(envelope, AGENT, principal=principal)


async def test_secrets_are_not_kept_and_said_to_be_missing() -> None:
    ada = Principal("ada", attributes={"tier": "pro", "api_key": "hush-1234", "token": None})
    envelope = await stored(Principal("bot", attributes={"password": "hush-5678"}).acting_for(ada))
    assert "hush" not in envelope.to_json()
    assert principal_of(envelope).on_behalf_of_attributes == ({"tier": "pro", "token": None},)
    dropped = "attributes.password, on_behalf_of_attributes[0].api_key"
    with pytest.raises(HydrationRefused) as refused:
        await hydrate(envelope, AGENT, principal=principal_of(envelope))
    assert refused.value.message == f"the envelope lacks attributes of its principal: {dropped}"
    replayed = await replay(envelope, AGENT)
    assert replayed.notes == (f"attributes of the principal that were not stored are left out: {dropped}",)
    assert (await replay(envelope, AGENT, principal=ADA)).notes == ()


async def test_what_the_hosts_patterns_match_is_not_kept_either() -> None:
    redact = redactor_of(["hush-[0-9]+"])
    ada = Principal("ada", attributes={"tier": "pro", "plan": "a hush-1234 plan", "hush-9": 1, "level": 3})
    for work in (capture, capture_runtime):
        captured = await work(AGENT, principal=ada, redact=redact)
        assert "hush-" not in captured.envelope.to_json()
        principal = captured.envelope.runtime.toolkit_context.principal
        assert principal is not None
        assert principal.attributes == {"tier": "pro", "level": 3}
        assert principal.dropped == ("attributes.[redacted]", "attributes.plan")
        assert envelope_of(captured.snapshot, redact=redact).runtime == captured.envelope.runtime
        assert "a hush-1234 plan" in envelope_of(captured.snapshot).to_json(), "who has no patterns, masks nothing"


async def test_a_replay_asks_policies_again_of_whom_it_is_given() -> None:
    envelope = await stored(ADA)
    replayed = await replay(envelope, AGENT, principal=Principal("ada", attributes={"tier": "free"}))
    assert replayed.missing == (MissingTool("export", "this needs the tier pro"),)
    assert [flip.id for flip in replayed.flipped] == ["pro"]
    assert replayed.refusal is not None
    assert "other attributes" in replayed.refusal.message


async def test_a_comparison_names_the_attributes_that_differ_and_tells_no_value() -> None:
    async def notes(first: Principal, other: Principal) -> str:
        return "; ".join(diff_envelopes(await stored(first), await stored(other)).notes)

    free = ada_with(tier="free", new=1)
    bot = Principal("bot", org="acme", kind="agent", attributes={"tier": "free"}).acting_for(free)
    secretive = Principal("a", attributes={"api_key": "x"})
    for first, other, places in (
        (ADA, free, "attributes.new, attributes.tier"),
        (ADA, ada_with(beta=1, share=1), "attributes.beta, attributes.share"),
        (BOT, bot, "on_behalf_of_attributes[0].new, on_behalf_of_attributes[0].tier"),
        (Principal("a"), secretive, "attributes.api_key"),
    ):
        assert await notes(first, other) == f"principal differs in: {places}"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"plan": {"tier": "pro"}}, "plan must be text, a number, true, false or null; got dict"),
        ({f"a{number}": 1 for number in range(33)}, "attributes are at most 32; got 33"),
        (["tier"], "attributes"),
    ],
)
async def test_an_envelope_with_others_than_there_can_be_is_none(changed: Any, message: str) -> None:
    data = json.loads((await stored(ADA)).to_json())
    data["runtime"]["toolkit_context"]["principal"]["attributes"] = changed
    with pytest.raises(DefinitionError, match=message):
        read_envelope(json.dumps(data))
