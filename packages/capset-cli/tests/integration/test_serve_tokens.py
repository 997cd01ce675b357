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
    api_key = key_for(workshop)
    options = ("--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE, "--jwt-jwks", jwks, "--jwt-algorithm", "ES256")
    with serving(workshop, *options) as server:
        assert ISSUER in server.greeting
        for credential, status in (
            (api_key, 200),
            (token(), 200),
            (token(key("two", "RSA")), 401),
            (token(aud="https://other.example.com"), 401),
            (None, 401),
        ):
            with server.client(credential) as client:
                assert client.get("/v1/agents").status_code == status
        log = server.end()
    assert f'"key":"jwt:{ISSUER}"' in log
    assert token().rpartition(".")[2] not in log
    assert beside(workshop, "key", "list", "--json").json["items"][0]["name"] == "test"


@pytest.mark.realtime
@pytest.mark.spec("P14")
def test_what_tokens_need_may_stand_in_variables(workshop: Command, jwks: str) -> None:
    settings = {"ISSUER": ISSUER, "AUDIENCE": AUDIENCE, "JWKS": jwks, "ORG_CLAIM": "tenant", "ORG": "acme"}
    variables = {f"CAPSET_JWT_{name}": value for name, value in settings.items()}
    with serving(Command(workshop.folder, {**workshop.environ, **variables})) as server:
        with server.client(token(org=None)) as client:
            assert client.get("/v1/agents").status_code == 200
        assert '"org":"acme"' in server.end()


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
    with serving(command, *options) as server, server.client() as client:
        outside = {"Host": "capset.example.com"}  # which needs no --allow-host
        refused = client.get("/v1/agents", headers=outside)
        at = f"{AUDIENCE}/.well-known/oauth-protected-resource/v1"
        assert refused.headers["www-authenticate"] == f'Bearer resource_metadata="{at}"'
        metadata = client.get(at.removeprefix(AUDIENCE), headers=outside).json()
        assert (metadata["resource"], metadata["authorization_servers"]) == (f"{AUDIENCE}/v1", [ISSUER])
        for audience, status in (
            (metadata["resource"], 200),
            (AUDIENCE, 200),
            (f"{AUDIENCE}/mcp", 401),
            ("capset", 401),
        ):
            headers = {"Authorization": f"Bearer {token(aud=audience)}"}
            assert client.get("/v1/agents", headers=headers).status_code == status, audience
        lines = [json.loads(line) for line in server.end().splitlines()]
        reasons = [entry["event"] for entry in lines if entry.get("logger") == "capset.tokens"]
        assert reasons == [
            "a token was refused: it is for another part of this server",
            "a token was refused: it is for another resource",
        ]


@pytest.mark.spec("P14")
@pytest.mark.parametrize(
    ("options", "message"),
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
    run: Run, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = run("serve", "--port", "0", *options)
    assert done.code == 2
    assert message in done.said
    assert not (tmp_path / "capset.db").exists()
