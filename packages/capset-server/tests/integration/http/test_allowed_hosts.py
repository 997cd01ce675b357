"""By which names the server is called, and from which pages (spec 5, P14): DNS rebinding and foreign origins."""

from __future__ import annotations

import pytest

from capset.errors import DefinitionError
from capset_server.http.request_rules import AllowedHosts
from tests.helpers.server.support import Site, checked_problem, problem, site
from tests.helpers.server.wire import ask

pytestmark = pytest.mark.spec("P14")


@pytest.mark.spec("T22")
@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost.", "*"])
@pytest.mark.parametrize("path", ["/v1/agents", "/v1/healthz", "/openapi.json", "/mcp/agents/foreman"])
async def test_a_foreign_host_is_refused(shared: Site, host: str, path: str) -> None:
    answer = await ask(shared, "GET", path, host=host or " ")
    checked_problem(answer.body, answer.headers, 421, "wrong_host")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:1234", "[::1]", "[::1]:8000"])
async def test_loopback_has_three_names_and_every_port(shared: Site, host: str) -> None:
    assert (await ask(shared, "GET", "/v1/agents", host=host)).status == 200


async def test_the_last_of_two_hosts_does_not_let_the_first_in(shared: Site) -> None:
    own_host = f"127.0.0.1:{shared.port}"
    for first, second in (("evil.example", own_host), (own_host, "evil.example")):
        answer = await ask(shared, "GET", "/v1/agents", host=f"{first}\r\nhost: {second}")
        assert answer.status in (400, 421), (first, second)


async def test_other_hosts_can_be_allowed() -> None:
    async with site(names=AllowedHosts.of("0.0.0.0", ["API.example"])) as server:
        for host, status in (("api.example", 200), ("api.example:443", 200), ("a.nobody", 421), ("localhost", 421)):
            assert (await ask(server, "GET", "/v1/agents", host=host)).status == status
    async with site(names=AllowedHosts.of("0.0.0.0", ["*"])) as server:
        assert (await ask(server, "GET", "/v1/agents", host="whatever.example")).status == 200


@pytest.mark.parametrize("host", ["*.nobody", "api.example:443", "https://api.example", "api.example/", "::1", "", "ü"])
def test_what_no_host_is_called_is_refused(host: str) -> None:
    with pytest.raises(DefinitionError, match="without scheme, port and path"):
        AllowedHosts.of("0.0.0.0", ["api.example", host])


@pytest.mark.parametrize("origin", ["*", "console.example", "https://console.example/app", "https://*.example", ""])
def test_what_no_browser_names_as_an_origin_is_refused(origin: str) -> None:
    with pytest.raises(DefinitionError, match="a scheme and a host"):
        AllowedHosts.of("127.0.0.1", origins=["https://console.example/", origin])
    assert AllowedHosts.of("127.0.0.1", origins=["null", "http://[::1]:3000", "chrome-extension://abc"])


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example", "http://127.0.0.1:1", "127.0.0.1"]
)
async def test_a_page_from_elsewhere_may_not_ask(shared: Site, origin: str) -> None:
    async with shared.client(headers={"Origin": origin}) as client:
        for path in ("/v1/agents", "/v1/healthz", "/mcp/agents/foreman"):
            problem(await client.get(path), 403, "permission_denied")


async def test_a_page_of_its_own_and_an_allowed_one_may_ask() -> None:
    async with site(names=AllowedHosts.of("127.0.0.1", origins=["https://Console.example/"])) as server:
        for origin in (server.url, "https://console.example"):
            async with server.client(headers={"Origin": origin}) as client:
                assert (await client.get("/v1/agents")).status_code == 200


async def test_no_answer_opens_anything_to_other_pages(shared: Site) -> None:
    preflight = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    async with shared.client(headers={"Origin": shared.url}) as client, shared.client(None) as stranger:
        answers = [await client.get(path) for path in ("/v1/agents", "/v1/nothing", "/openapi.json")]
        answers += [await of.options("/v1/agents", headers=preflight) for of in (client, stranger)]
        answers.append(await client.post("/v1/agents", json={}))
    for answer in answers:
        assert not [name for name in answer.headers if name.startswith("access-control-")]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers
