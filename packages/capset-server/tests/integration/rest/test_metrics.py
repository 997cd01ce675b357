"""``/v1/metrics``: what is counted, for whom, and that nobody can make labels (spec 5, P13)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import httpx2
import pytest
from prometheus_client import REGISTRY, Metric
from prometheus_client.parser import text_string_to_metric_families

from capset import Agent, Capability
from capset.errors import CapsetError
from capset.kernel.registry import Registry
from capset_server.observability import metrics
from capset_server.observability.metrics import BUCKETS, Durations
from tests.helpers.server.support import (
    ALL_SCOPES,
    Site,
    Sleeper,
    call,
    echo,
    kit,
    make_agent,
    make_session,
    problem,
    site,
)

pytestmark = pytest.mark.spec("P13", "T25")


class Scraped:
    """What one look at the metrics says."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families: dict[str, Metric] = {metric.name: metric for metric in text_string_to_metric_families(text)}

    def value(self, sample: str, **labels: str) -> float | None:
        """Return the value of a sample with just these labels."""
        for family in self.families.values():
            for candidate in family.samples:
                if candidate.name == sample and candidate.labels == labels:
                    return candidate.value
        return None

    def labels(self, family: str) -> list[Mapping[str, str]]:
        """Return the labels of every sample of a family."""
        return [sample.labels for sample in self.families[family].samples]


async def scrape(client: httpx2.AsyncClient) -> Scraped:
    response = await client.get("/v1/metrics")
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/plain")
    return Scraped(response.text)


async def scrape_all(server: Site) -> Scraped:
    """Return what an operator reads."""
    await server.key("operator", org=None, scopes=["capset:metrics"])
    async with server.client("operator") as operator:
        return await scrape(operator)


async def test_calls_and_requests_are_counted_and_timed(here: Site, ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada)
    for _ in range(3):
        await call(ada, session, "echo")
    await call(ada, session, "unlock")
    await call(ada, session, "crash")
    scraped = await scrape_all(here)
    assert scraped.value("capset_calls_total", tool="echo", effect="read", outcome="succeeded") == 3
    assert scraped.value("capset_calls_total", tool="unlock", effect="write", outcome="denied") == 1
    assert scraped.value("capset_calls_total", tool="crash", effect="read", outcome="failed") == 1
    assert scraped.value("capset_call_duration_seconds_count", tool="echo") == 3
    assert scraped.value("capset_call_duration_seconds_bucket", tool="echo", le="+Inf") == 3
    assert scraped.value("capset_calls_running") == 0
    route = {"method": "POST", "route": "/v1/sessions/{id}/calls"}
    assert scraped.value("capset_http_requests_total", **route, status="200") == 4
    assert scraped.value("capset_http_requests_total", **route, status="403") == 1
    assert scraped.value("capset_http_request_duration_seconds_count", **route) == 5
    assert scraped.value("capset_http_requests_running") == 1, "the one that asks"
    assert scraped.value("capset_abandoned_total") == 0
    assert scraped.value("capset_registry_problems") == 0
    assert scraped.labels("capset_build_info") == [{"version": "0.1.0.dev0"}]


async def test_it_says_what_runs() -> None:
    sleeper = Sleeper()
    async with site(sleeper.capability()) as server, server.client() as ada:
        session = await make_session(ada, "bed")
        asking = asyncio.ensure_future(call(ada, session, "sleep"))
        await sleeper.started.wait()
        scraped = await scrape_all(server)
        assert scraped.value("capset_calls_running") == 1
        assert scraped.value("capset_http_requests_running") == 2
        sleeper.woken.set()
        assert (await asking).status_code == 200
        assert (await scrape(ada)).value("capset_calls_running") == 0


async def test_a_clients_words_make_no_labels(here: Site, ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada)
    before = await scrape(ada)
    for number in range(20):
        await call(ada, session, f"tool-{number}")
        await ada.get(f"/v1/nothing/{number}")
        await ada.get(f"/v1/agents/agent-{number}")
        await ada.get(f"/v1/sessions/{session}/files/{number}/and/more")
        await ada.request(f"WORD{number}", "/v1/agents")
    after = await scrape(ada)
    assert after.value("capset_calls_total", tool="other", effect="none", outcome="not_found") == 20
    assert after.value("capset_http_requests_total", method="GET", route="none", status="404") == 20
    for family in ("capset_calls", "capset_http_requests"):
        assert len(after.labels(family)) <= len(before.labels(family)) + 6, family
    assert "tool-1" not in after.text
    assert "agent-1" not in after.text
    assert "WORD" not in after.text


async def test_a_renamed_tool_counts_by_its_own_name(here: Site, ada: httpx2.AsyncClient) -> None:
    agent = await make_agent(ada, capabilities=[{"id": "kit", "prefix": "acme_secret_"}])
    session = (await ada.post("/v1/sessions", json={"agent_id": agent["id"]})).json()["id"]
    assert (await call(ada, session, "acme_secret_echo")).status_code == 200
    scraped = await scrape(ada)
    assert scraped.value("capset_calls_total", tool="echo", effect="read", outcome="succeeded") == 1
    assert "acme_secret" not in scraped.text


async def test_it_names_nobody(here: Site, ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada)
    await call(ada, session, "echo", text="hunter2")
    text = (await scrape(ada)).text
    for word in ("ada", "acme", session, "hunter2", here.keys["ada"]):
        assert word not in text


@pytest.mark.spec("P45", "T20")
async def test_an_administrator_of_an_organisation_reads_its_own_counts_alone(here: Site) -> None:
    await here.key("eve", org="globex", scopes=["capset:admin"])
    async with here.client() as ada, here.client("eve") as eve:
        await call(ada, await make_session(ada), "echo")
        session = await make_session(eve)
        await call(eve, session, "unlock")
        await call(eve, session, "unlock")
        for_ada, for_eve, for_all = await scrape(ada), await scrape(eve), await scrape_all(here)
    echo = {"tool": "echo", "effect": "read", "outcome": "succeeded"}
    unlock = {"tool": "unlock", "effect": "write", "outcome": "denied"}
    route = {"method": "POST", "route": "/v1/sessions/{id}/calls"}
    counts = [
        (
            scraped.value("capset_calls_total", **echo),
            scraped.value("capset_calls_total", **unlock),
            scraped.value("capset_call_duration_seconds_count", tool="unlock"),
            scraped.value("capset_http_request_duration_seconds_count", **route),
        )
        for scraped in (for_ada, for_eve, for_all)
    ]
    assert counts == [(1, None, None, 1), (None, 2, 2, 2), (1, 2, 2, 3)]
    assert for_ada.value("capset_calls_running") == 0
    servers = set(for_all.families) - set(for_eve.families)
    assert servers >= {"capset_abandoned", "capset_threads_running", "capset_log_lines_lost", "capset_build_info"}
    assert "capset_http_requests_running" in servers
    assert any(name.startswith("process_") for name in servers)


@pytest.mark.spec("P45", "T25")
async def test_organisations_beyond_a_number_are_counted_together(
    here: Site, ada: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "MAX_ORGS", 1)
    await ada.get("/v1/agents")
    await here.key("eve", org="globex")
    async with here.client("eve") as eve:
        await eve.get("/v1/agents")
        route = {"method": "GET", "route": "/v1/agents", "status": "200"}
        assert (await scrape(ada)).value("capset_http_requests_total", **route) == 1
        assert (await scrape(eve)).value("capset_http_requests_total", **route) is None
        assert (await scrape_all(here)).value("capset_http_requests_total", **route) == 2


async def test_it_needs_a_scope_of_its_own(here: Site) -> None:
    await here.key("eve", scopes=[scope for scope in ALL_SCOPES if scope != "capset:metrics"])
    await here.key("prometheus", scopes=["capset:metrics"])
    async with here.client("eve") as eve:
        problem(await eve.get("/v1/metrics"), 403, "permission_denied")
    async with here.client(None) as stranger:
        problem(await stranger.get("/v1/metrics"), 401, "unauthenticated")
    async with here.client("prometheus") as prometheus:
        assert (await prometheus.get("/v1/metrics")).status_code == 200
        problem(await prometheus.get("/v1/agents"), 403, "permission_denied")


async def test_openmetrics_comes_to_whoever_accepts_it(ada: httpx2.AsyncClient) -> None:
    accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
    response = await ada.get("/v1/metrics", headers={"Accept": accept})
    assert response.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert response.text.endswith("# EOF\n")


@pytest.mark.parametrize("version", ["x", "1.x.y"])
async def test_who_asks_for_a_version_that_is_none_gets_the_usual_text(ada: httpx2.AsyncClient, version: str) -> None:
    response = await ada.get("/v1/metrics", headers={"Accept": f"application/openmetrics-text; version={version}"})
    assert (response.status_code, response.headers["content-type"].partition(";")[0]) == (200, "text/plain")


async def test_two_servers_in_one_process_count_apart_and_leave_the_hosts_registry_alone() -> None:
    async with site() as server, site() as other, server.client() as ada, other.client() as eve:
        session = await make_session(ada)
        await call(ada, session, "echo")
        labels = {"tool": "echo", "effect": "read", "outcome": "succeeded"}
        assert (await scrape(ada)).value("capset_calls_total", **labels) == 1
        assert (await scrape(eve)).value("capset_calls_total", **labels) is None
    assert not [family for family in REGISTRY.collect() if family.name.startswith("capset")]


async def test_tools_of_a_registry_that_was_read_again_are_known(here: Site, ada: httpx2.AsyncClient) -> None:
    other = Capability("other_kit", tools=[echo])
    another = Capability("another", tools=[replace(echo, description="Another of that name.")])
    broken = Agent("broken", uses=[kit, another])
    with pytest.raises(CapsetError):
        here.kernel.compose(broken)
    here.service.adopt(Registry.of([kit, other], [broken, *here.registry.agents.values()]))
    session = await make_session(ada, "other_kit")
    await call(ada, session, "echo")
    assert (await scrape(ada)).value("capset_calls_total", tool="echo", effect="read", outcome="succeeded") == 1


def test_durations_fall_into_the_bucket_that_they_fit() -> None:
    durations = Durations()
    for seconds in (0.0, BUCKETS[0], BUCKETS[0] * 1.001, 1_000.0):
        durations.add(seconds)
    assert (durations.counts[0], durations.counts[1], durations.counts[-1]) == (2, 1, 1)
    assert durations.total == pytest.approx(1_000 + BUCKETS[0] * 2.001)


@pytest.mark.spec("P13", "P34")
async def test_refusals_are_counted_by_their_limit() -> None:
    async with site() as server:
        await server.key("root", scopes=["capset:admin"], org=None)
        async with server.client("root") as root:
            headers = {"Content-Type": "application/json"}
            assert (await root.post("/v1/agents", content=b" " * 2**21, headers=headers)).status_code == 413
            assert (await root.post("/v1/agents", content=b"[" + b"1," * 30_000, headers=headers)).status_code == 413
            assert (await root.post("/v1/agents", content=b"{", headers=headers)).status_code == 400
            scraped = await scrape(root)
            for code in ("body_too_large", "too_many_values", "invalid_json"):
                assert scraped.value("capset_http_refusals_total", code=code) == 1
