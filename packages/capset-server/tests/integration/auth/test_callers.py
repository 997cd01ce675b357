"""Who asks is found out first, and says nothing of what there is (spec 4, G1; spec 5, P14)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from capset import Principal
from capset.errors import DefinitionError
from capset.kernel.ttl_cache import TTL_SECONDS
from capset_server.auth.callers import Caller
from capset_server.auth.keys import create_key
from capset_testing import FakeClock
from tests.helpers.server.support import Site, call, make_session, problem, site
from tests.helpers.server.walk import ADMINISTERED, Belongings, steps
from tests.helpers.server.wire import ask
from tests.waiting import until

NOT_THERE = Belongings("nowhere", "nowhere", "nowhere")


@pytest.mark.spec("G1", "P14")
async def test_without_a_key_nothing_is_looked_at(shared: Site) -> None:
    async with shared.client() as ada:
        document = (await ada.get("/openapi.json")).json()
    async with shared.client(None) as client:
        for step in steps(document, NOT_THERE):
            if step.name not in ("healthz", "readyz"):
                response = await step.take(client)
                problem(response, 401, "unauthenticated")
                assert response.headers["www-authenticate"] == "Bearer"
        paths = "/openapi.json /v1 /v1/nothing /docs /redoc /mcp /admin /v1/agents/ /favicon.ico"
        for path in paths.split():
            problem(await client.get(path), 401, "unauthenticated")
        for method, content in (("POST", b"{broken"), ("PROPFIND", b""), ("PUT", b"x" * 100_000)):
            problem(await client.request(method, "/v1/agents", content=content), 401, "unauthenticated")


@pytest.mark.spec("P14")
async def test_every_key_that_is_not_valid_is_refused_in_the_same_words() -> None:
    clock = FakeClock()
    async with site(clock=clock) as server:
        row, server.keys["revoked"] = await create_key(server.kernel, "r", Principal("ada", org="acme"))
        await server.key("expired", lifetime=timedelta(hours=1))
        await server.kernel.store.keys.revoke(row.id, server.kernel.now())
        async with server.client("expired") as client:
            assert (await client.get("/v1/agents")).status_code == 200
        clock.advance(3600)
        good = server.keys["ada"]
        keys = (server.keys["revoked"], server.keys["expired"], "capset_" + "A" * 43, good[:-1], f"{good}x", "")
        odd = ("A" * 10_000, "\u00fc\u00ff")
        wrong = [None, "", good, f"Basic {good}", *(f"Bearer {key}" for key in (*keys, *odd))]
        bodies = set[str]()
        for authorization in wrong:
            headers = {} if authorization is None else {"authorization": authorization}
            answer = await ask(server, "GET", "/v1/agents", key=None, **headers)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
            bodies.add(answer.body.decode().replace(answer.headers["x-correlation-id"], ""))
        assert len(bodies) == 1, bodies
        assert (await ask(server, "GET", "/v1/agents", key=None, authorization=f"bEaReR {good}")).status == 200


@pytest.mark.spec("P14")
async def test_a_key_that_is_revoked_while_it_is_in_use_opens_a_second_longer_at_most(shared: Site) -> None:
    row, shared.keys["soon gone"] = await create_key(shared.kernel, "g", Principal("ada", org="acme"))
    async with shared.client("soon gone") as client:
        assert (await client.get("/v1/agents")).status_code == 200
        await shared.kernel.store.keys.revoke(row.id, shared.kernel.now())
        assert TTL_SECONDS <= 1
        shared.service.callers._known._entries.clear()  # as a second later
        problem(await client.get("/v1/agents"), 401, "unauthenticated")


@pytest.mark.spec("P35", "T31")
async def test_a_key_that_has_ended_counts_among_those_of_unknown_callers() -> None:
    clock = FakeClock()
    async with site(clock=clock) as server:
        header = f"Bearer {await server.key('short', lifetime=timedelta(hours=1))}"
        async with server.client("short") as client:
            assert (await client.get("/v1/agents")).status_code == 200
            assert server.service.callers.has_met(header)
            clock.advance(3600)
            problem(await client.get("/v1/agents"), 401, "unauthenticated")
            assert not server.service.callers.has_met(header)


NEEDS = {
    "read": (
        "list_agents get_agent list_agent_versions get_agent_version diff_agent_versions preview_agent "
        "preview_agent_change list_capabilities get_capability list_fingerprints get_fingerprint diff_fingerprints "
        "check_config"
    ),
    "write": "create_agent change_agent archive_agent rollback_agent",
    "audit": (
        "list_records summarize_records verify_records export_records get_log_key list_sightings list_deliveries "
        "get_delivery get_model_usage"
    ),
    "approve": (
        "approve reject decide_approvals summarize_approvals get_approval_conversation get_approval_arguments "
        "get_approval_file"
    ),
    "metrics": "metrics",
    "admin": " ".join(ADMINISTERED),
    "call": "",
}
"""The scope that an operation needs; all others need ``call``."""
SUFFICE = {
    "audit": "list_links diff_links get_link get_link_envelope get_envelope list_transitions",
    "approve": "list_approvals get_approval",
}
"""Operations for which another scope than theirs will do."""


@pytest.mark.spec("P14")
@pytest.mark.parametrize("scope", [scope for scope in NEEDS if scope != "admin"])
async def test_a_key_may_ask_only_what_its_scopes_say(shared: Site, scope: str) -> None:
    async with shared.client() as ada:
        session = await make_session(ada)
        agent = (await ada.get("/v1/agents")).json()["items"][-1]["id"]
        document = (await ada.get("/openapi.json")).json()
    await shared.key("narrow", principal="ada", scopes=[f"capset:{scope}"])
    needs = {name: needed for needed, names in NEEDS.items() for name in names.split()}
    async with shared.client("narrow") as client:
        for step in steps(document, Belongings(agent, session, "")):
            if step.name in ("healthz", "readyz", "whoami", "get_usage", "get_record"):  # of one's own
                continue
            needed, response = needs.get(step.name, "call"), await step.take(client)
            if needed == scope or step.name in SUFFICE.get(scope, "").split():
                assert response.status_code != 403, (step, response.text)
            else:
                assert f"capset:{needed}" in problem(response, 403, "permission_denied")["detail"], step


@pytest.mark.spec("G10", "P14")
async def test_an_administrator_may_ask_everything(shared: Site) -> None:
    await shared.key("root", scopes=["capset:admin"])
    async with shared.client("root") as client:
        assert (await call(client, await make_session(client), "echo")).status_code == 200
        for path in ("/v1/audit", "/v1/agents", "/v1/capabilities"):
            assert (await client.get(path)).status_code == 200


@pytest.mark.spec("P14")
async def test_a_scope_says_nothing_of_what_there_is(shared: Site) -> None:
    async with shared.client() as ada:
        session = await make_session(ada)
    await shared.key("eve", org="evil", scopes=["capset:read"])
    async with shared.client("eve") as eve:
        for session_id in (session, "nowhere"):
            problem(await eve.get(f"/v1/sessions/{session_id}"), 403, "permission_denied")


@pytest.mark.spec("P14")
async def test_keys_are_kept_hashed(tmp_path: Path) -> None:
    async with site(store=f"sqlite:///{tmp_path}/capset.db") as server, server.client() as client:
        await call(client, await make_session(client), "echo")
        key = server.keys["ada"]
        await server.kernel.audit.flush()
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        await until(lambda: b"api_keys" in b"".join(path.read_bytes() for path in files))
        assert not [path for path in files if key.removeprefix("capset_").encode() in path.read_bytes()]


@pytest.mark.spec("P14")
@pytest.mark.parametrize(
    ("principal", "scope", "message"),
    [
        *((Principal("ada", org=org), "capset:read", "org") for org in ("", " ", "a\0b")),
        (Principal.anonymous(), "capset:read", "a key is for a user, an agent or an org that acts for itself"),
        (Principal("bot", kind="agent").acting_for(Principal("ada")), "capset:read", "that acts for itself"),
        (Principal("ada"), "capset:raed", "capset:read"),
    ],
)
async def test_a_key_is_of_somebody_known_for_scopes_that_there_are(
    shared: Site, principal: Principal, scope: str, message: str
) -> None:
    before = await shared.kernel.store.keys.list()
    with pytest.raises(DefinitionError, match=message):
        await create_key(shared.kernel, "k", principal, scopes=[scope])
    assert await shared.kernel.store.keys.list() == before


@pytest.mark.spec("P14")
async def test_without_keys_everybody_is_the_one_who_was_named() -> None:
    anyone = Caller(Principal("dev", permissions={"vault:open"}), frozenset({"capset:admin"}), None)
    async with site(anyone=anyone) as server, server.client(None) as client:
        session = await make_session(client)
        assert (await call(client, session, "unlock")).json()["data"] == "open"
        assert (await server.record()).principal == "dev"
