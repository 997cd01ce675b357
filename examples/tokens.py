"""A server that takes the tokens of an identity provider, which is played by a key in a file. No network."""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

CAPSET = Path(sys.executable).with_name("capset")
ISSUER, AUDIENCE = "https://login.example.com/", "https://capset.example.com"


@contextmanager
def server(folder: str, *options: str) -> Generator[str]:
    """Run a server on a free port, with a database in a folder, and give its address."""
    command = [CAPSET, "serve", "--port", "0", *options]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            match = re.search(r"http://\S+", process.stderr.readline())
            assert match is not None, "the server says first where it is"
            yield match[0]
        finally:
            process.terminate()
            process.communicate()


def issue(key: ECKey, **claims: str) -> str:
    """Return a token as the provider would make it, good for five minutes."""
    usual = {"iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 300, "scope": "capset:read capset:call"}
    return jwt.encode({"alg": "ES256", "kid": key.kid}, {**usual, **claims}, key)


def status(url: str, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx2.get(f"{url}/v1/capabilities", headers=headers, trust_env=False).status_code


def main() -> None:
    key = ECKey.generate_key("P-256", {"kid": "2026-11"})
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "jwks.json").write_text(json.dumps(KeySet([key]).as_dict(private=False)))
        options = ("--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE, "--jwt-jwks", "jwks.json")
        with server(folder, *options) as url:
            assert status(url, issue(key, sub="ada", org="acme")) == 200
            print("ada of acme is let in")
            for why, token in (
                ("nobody's organisation", issue(key, sub="ada")),
                ("for another server", issue(key, sub="ada", org="acme", aud="https://other.example.com")),
                (
                    "signed by somebody else",
                    issue(ECKey.generate_key("P-256", {"kid": "2026-11"}), sub="ada", org="acme"),
                ),
            ):
                assert status(url, token) == 401
                print("refused:", why)


main()
