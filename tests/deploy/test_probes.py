"""Probes and health checks, as the files of ``deploy/`` write them, asked of servers started as the files say."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from capset_tools.sandbox import jail
from tests.databases import require_scheme
from tests.deploy.manifests import COMPOSE, DEPLOY, compose, container_of, manifests
from tests.helpers.cli.support import CAPSET, Command, clean_environment
from tests.helpers.server.running import EVERYTHING, Running, address_of, running
from tests.helpers.server.support import call, make_session
from tests.helpers.tools.sandbox.support import need_jails
from tests.waiting import wait_until

KEY: Final = "NS6FzmVWkXIPYIwJpwBAFoD9Cw/+T3pZtZbqFBbVcoQ="
MANIFESTS: Final = manifests()
CONTAINER: Final = container_of(MANIFESTS["deployment.yaml"])
PROBES: Final = ("startupProbe", "livenessProbe", "readinessProbe")


def options_of(words: list[str]) -> list[str]:
    """Return the options of ``serve …``, with a port that is free in the place of theirs."""
    verb, *options = words
    assert verb == "serve"
    at = options.index("--port")
    return options[:at] + options[at + 2 :]


def status_of(server: Running, path: str, host: str) -> int:
    """Return how a server answers what the kubelet sends."""
    connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=5)
    connection.putrequest("GET", path, skip_host=True, skip_accept_encoding=True)
    for name, value in (("Host", host), ("User-Agent", "kube-probe/1.34"), ("Accept", "*/*"), ("Connection", "close")):
        connection.putheader(name, value)
    connection.endheaders()
    try:
        return connection.getresponse().status
    finally:
        connection.close()


def probe(server: Running, name: str) -> int:
    """Return how a server answers a probe of the manifest."""
    request = CONTAINER[name]["httpGet"]
    assert request.keys() == {"path", "port", "httpHeaders"}
    assert request["port"] in [port["name"] for port in CONTAINER["ports"]]
    (header,) = request["httpHeaders"]
    assert header["name"] == "Host"
    return status_of(server, request["path"], header["value"])


@pytest.mark.realtime
@pytest.mark.spec("D3")
def test_a_server_started_as_the_manifest_says_answers_its_probes(postgres_url: str, tmp_path: Path) -> None:
    require_scheme()
    environ = MANIFESTS["configmap.yaml"]["data"] | {"CAPSET_DB": postgres_url, "CAPSET_CHECKPOINT_KEY": KEY}
    with running(tmp_path, *options_of(CONTAINER["args"]), **environ) as server:
        assert [probe(server, name) for name in PROBES] == [200, 200, 200]
        assert status_of(server, "/v1/healthz", "10.1.2.3:8000") == 421, "so a probe needs its header"
        assert status_of(server, "/v1/healthz", MANIFESTS["ingress.yaml"]["spec"]["rules"][0]["host"]) == 200
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: probe(server, "readinessProbe") != 200, "the server to be ready no more")
        assert (probe(server, "readinessProbe"), probe(server, "livenessProbe")) == (503, 200)
        # ``running`` sends a second signal, which ends the delay.


def asks(words: list[str], server: Running) -> int:
    """Return the exit code of a health check, run as an image's or a service's is, at a server's own port."""
    program, option, code = words
    assert (program, option) == ("python", "-c")
    code = code.replace("127.0.0.1:8000", f"127.0.0.1:{server.url.rpartition(':')[2]}")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120, check=False)
    return done.returncode


@pytest.mark.realtime
@pytest.mark.spec("D1")
def test_a_server_started_as_the_compose_file_says_is_healthy(tmp_path: Path) -> None:
    service: Any = compose()["services"]["capset-1"]
    line = next(line for line in (DEPLOY / "Containerfile").read_text(encoding="utf-8").splitlines() if "CMD [" in line)
    image = json.loads(line.partition("CMD ")[2])
    environ = {
        "CAPSET_DB": f"sqlite:///{tmp_path}/capset.db",
        "CAPSET_PUBLIC_URL": "http://localhost:8080",
        "CAPSET_CHECKPOINT_KEY": KEY,
    }
    assert environ["CAPSET_PUBLIC_URL"] in COMPOSE.read_text(encoding="utf-8")
    with running(tmp_path, *options_of(service["command"]), **environ) as server:
        healthcheck = service["healthcheck"]["test"]
        assert healthcheck[0] == "CMD"
        assert (asks(healthcheck[1:], server), asks(image, server)) == (0, 0)
        assert status_of(server, "/v1/healthz", "localhost") == 200, "as the proxy passes the name on"
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: status_of(server, "/v1/readyz", "localhost") != 200, "the server to be ready no more")
        assert (asks(healthcheck[1:], server), asks(image, server)) == (1, 0), "nothing new is sent to it, and it lives"


@pytest.mark.spec("D2")
def test_a_server_does_not_start_with_the_example_of_a_secret(tmp_path: Path) -> None:
    secrets = MANIFESTS["secret.example.yaml"]["stringData"]
    command = Command(tmp_path, clean_environment(tmp_path, CAPSET_DB=f"sqlite:///{tmp_path}/a.db", **secrets))
    done = command("serve", "--port", "0")
    assert done.code == 2
    assert "a private key must be PEM, or 32 bytes in base64" in done.said


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("D8")
async def test_a_server_on_postgresql_needs_no_file_that_it_can_write_to(postgres_url: str, tmp_path: Path) -> None:
    """Only the folder for temporary files can be written to."""
    need_jails()
    require_scheme()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environ = clean_environment(tmp_path, CAPSET_DB=postgres_url, CAPSET_CHECKPOINT_KEY=KEY, TMPDIR=str(scratch))
    words = [jail._bubblewrap(), "--die-with-parent", "--ro-bind", "/", "/", "--bind", scratch, scratch, "--chdir", "/"]
    serve = [sys.executable, CAPSET, "serve", "--port", "0"]
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run([*words, "touch", tmp_path / "file"], check=True, capture_output=True)
    log = tmp_path / "server.log"
    with log.open("wb") as errors:
        process = subprocess.Popen([*words, *serve], env=environ, stdout=subprocess.DEVNULL, stderr=errors, text=True)
    try:
        server = Running(address_of(process, log), Command(tmp_path, environ), process, log)
        headers = {"Authorization": f"Bearer {server.key(scopes=EVERYTHING, grant=['session_files:write'])}"}
        async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=30, trust_env=False) as client:
            assert (await client.get("/v1/readyz")).json()["signing"]["signs"] is True
            session = await make_session(client, "test_math", "session_file_system")
            assert (await call(client, session, "add", a=2, b=3)).json()["data"]["result"] == 5
            large = await client.put(f"/v1/sessions/{session}/files/large", content=bytes(5_000_000))
            assert large.status_code == 200, large.text
            assert (await client.get("/login")).status_code == 200
    finally:
        process.kill()  # bubblewrap, with which its server dies
        process.wait()
    assert "Traceback" not in log.read_text()
