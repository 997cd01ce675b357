"""``capset serve --jwt-…``: tokens beside keys, by flags or by variables (spec 5, P14)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.cli.serving import beside, key_for, serving
from tests.helpers.cli.support import Command, Run
from tests.helpers.server.auth.issuing import AUDIENCE, ISSUER, key, key_set, token


@pytest.fixture
def jwks(tmp_path: Path) -> str:
    """Give a file with the issuer's keys."""
    file = tmp_path / "issuer.json"
    file.write_bytes(key_set(key("one"), key("two", "RSA")))
    return str(file)


@pytest.mark.realtime
@pytest.mark.spec("P14")
def test_tokens_and_keys_open_the_same_server(workshop: Command, jwks: str) -> None:
    known = key_for(workshop)
    options = ("--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE, "--jwt-jwks", jwks, "--jwt-algorithm", "ES256")
    with serving(workshop, *options) as here:
        assert ISSUER in here.greeting
        for given, status in (
            (known, 200),
            (token(), 200),
            (token(key("two", "RSA")), 401),
            (token(aud="https://other.example.com"), 401),
            (None, 401),
        ):
            with here.client(given) as client:
                assert client.get("/v1/agents").status_code == status
        said = here.end()
    assert f'"key":"jwt:{ISSUER}"' in said
    assert token().rpartition(".")[2] not in said
    assert beside(workshop, "key", "list", "--json").json["items"][0]["name"] == "test"


@pytest.mark.realtime
@pytest.mark.spec("P14")
def test_what_tokens_need_may_stand_in_variables(workshop: Command, jwks: str) -> None:
    told = {"ISSUER": ISSUER, "AUDIENCE": AUDIENCE, "JWKS": jwks, "ORG_CLAIM": "tenant", "ORG": "acme"}
    variables = {f"CAPSET_JWT_{name}": value for name, value in told.items()}
    with serving(Command(workshop.folder, {**workshop.environ, **variables})) as here:
        with here.client(token(org=None)) as client:
            assert client.get("/v1/agents").status_code == 200
        assert '"org":"acme"' in here.end()


@pytest.mark.realtime
@pytest.mark.spec("M14")
@pytest.mark.parametrize("by_variable", [False, True])
def test_a_public_url_is_where_clients_find_the_issuer(workshop: Command, jwks: str, by_variable: bool) -> None:
    options = ["--jwt-issuer", ISSUER, "--jwt-jwks", jwks]
    command = workshop
    if by_variable:
        command = Command(workshop.folder, {**workshop.environ, "CAPSET_PUBLIC_URL": AUDIENCE})
    else:
        options += ["--public-url", AUDIENCE]
    with serving(command, *options) as here, here.client() as client:
        outside = {"Host": "capset.example.com"}  # which needs no --allow-host
        refused = client.get("/v1/agents", headers=outside)
        at = f"{AUDIENCE}/.well-known/oauth-protected-resource/v1"
        assert refused.headers["www-authenticate"] == f'Bearer resource_metadata="{at}"'
        found = client.get(at.removeprefix(AUDIENCE), headers=outside).json()
        assert (found["resource"], found["authorization_servers"]) == (f"{AUDIENCE}/v1", [ISSUER])
        for audience, status in ((found["resource"], 200), (AUDIENCE, 200), (f"{AUDIENCE}/mcp", 401), ("capset", 401)):
            given = {"Authorization": f"Bearer {token(aud=audience)}"}
            assert client.get("/v1/agents", headers=given).status_code == status, audience
        told = [json.loads(line) for line in here.end().splitlines()]
        reasons = [one["event"] for one in told if one.get("logger") == "capset.tokens"]
        assert reasons == [
            "a token was refused: it is for another part of this server",
            "a token was refused: it is for another resource",
        ]


@pytest.mark.spec("P14")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--public-url", AUDIENCE, "--jwt-org", "acme"), "missing: --jwt-issuer, --jwt-jwks"),
        (("--public-url", "http://capset.example.com"), "https"),
        (("--jwt-issuer", ISSUER, "--jwt-jwks", "x", "--public-url", f"{AUDIENCE}/?a=b"), "no query"),
        (("--jwt-issuer", ISSUER, "--jwt-jwks", "x", "--public-url", "http://capset.example.com"), "https"),
        (("--insecure", "--jwt-issuer", ISSUER, "--jwt-jwks", "x", "--public-url", AUDIENCE), "--insecure"),
        (("--jwt-issuer", ISSUER), "missing: --jwt-audience, --jwt-jwks"),
        (("--jwt-org", "acme"), "missing: --jwt-issuer"),
        (("--jwt-issuer", ISSUER, "--jwt-audience", "a", "--jwt-jwks", "no-such-file"), "no-such-file"),
        (("--jwt-issuer", ISSUER, "--jwt-audience", "a", "--jwt-jwks", "http://login.example.com/"), "https"),
        (("--jwt-issuer", ISSUER, "--jwt-audience", "a", "--jwt-jwks", "x", "--jwt-algorithm", "HS256"), "HS256"),
        (("--insecure", "--jwt-issuer", ISSUER, "--jwt-audience", "a", "--jwt-jwks", "x"), "--insecure"),
    ],
)
def test_half_of_it_is_refused_before_a_database_is_made(
    run: Run, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    done = run("serve", "--port", "0", *options)
    assert done.code == 2
    assert said in done.said
    assert not (tmp_path / "capset.db").exists()
