"""``deploy/compose.yaml``: valid, and true to the image, the proxy and the command line."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
from compose_spec import PyOptions, parse_duration

from tests.deploy.manifests import COMPOSE, DEPLOY, compose, parse, variables_of
from tests.deploy.test_kubernetes import ending_seconds

SERVICES: Final[dict[str, Any]] = compose()["services"]
SERVERS: Final = ("capset-1", "capset-2")


def checked(text: str) -> list[str]:
    """Return the names of the services of a compose file, once it fits the specification."""
    options = PyOptions(apply_merge=True).from_yaml(text)
    options.validate()
    return options.service_names()


@pytest.mark.spec("D1")
def test_it_fits_the_specification() -> None:
    assert checked(COMPOSE.read_text(encoding="utf-8")) == ["postgres", "migrate", *SERVERS, "proxy"]


@pytest.mark.spec("D1")
@pytest.mark.parametrize(
    ("original", "wrong"), [("stop_grace_period", "stop_grace_perid"), ("networks: [web]", "networks: [wed]")]
)
def test_what_the_specification_does_not_know_is_noticed(original: str, wrong: str) -> None:
    text = COMPOSE.read_text(encoding="utf-8")
    assert original in text
    with pytest.raises(ValueError, match=wrong.rsplit(maxsplit=1)[-1].strip("[]")):
        checked(text.replace(original, wrong))


@pytest.mark.spec("D1")
def test_servers_are_alike_and_begin_once_the_database_is_of_their_version() -> None:
    first, two = (SERVICES[name] for name in SERVERS)
    assert first == two
    assert first["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert SERVICES["migrate"]["restart"] == "no"
    assert SERVICES["migrate"]["image"] == first["image"]
    _, options = parse(first["command"])
    assert ending_seconds(options["drain_delay"]) < parse_duration(first["stop_grace_period"])


@pytest.mark.spec("D1")
@pytest.mark.parametrize(("name", "command"), [("capset-1", "serve"), ("migrate", "db upgrade")])
def test_a_service_runs_a_command_that_there_is_with_variables_that_it_reads(name: str, command: str) -> None:
    service = SERVICES[name]
    assert parse(service["command"])[0] == f"capset {command}"
    assert service["environment"].keys() - variables_of(*command.split()) == {"PGPASSWORD"}, "libpq's, and no other"


@pytest.mark.spec("D1")
def test_secrets_come_from_outside_and_a_missing_one_is_named() -> None:
    environment = {
        name: value for service in SERVICES.values() for name, value in service.get("environment", {}).items()
    }
    assert environment["CAPSET_CHECKPOINT_KEY"].startswith("${CAPSET_CHECKPOINT_KEY:?")
    assert environment["PGPASSWORD"].startswith("${POSTGRES_PASSWORD:?")
    assert compose()["secrets"]["postgres_password"] == {"environment": "POSTGRES_PASSWORD"}
    assert environment["POSTGRES_PASSWORD_FILE"] == "/run/secrets/postgres_password"


@pytest.mark.spec("D1")
def test_no_container_of_capset_or_the_proxy_may_do_more_than_it_must() -> None:
    for name in ("migrate", *SERVERS, "proxy"):
        service = SERVICES[name]
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]
    (user,) = re.findall(r"^USER (\S+)$", (DEPLOY / "Containerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {SERVICES[name]["user"] for name in ("migrate", *SERVERS)} == {user}
    # What the image declares as volumes would be made anew for each container, and be kept when it goes.
    volumes = re.findall(r"^VOLUME (.*)$", (DEPLOY / "Containerfile").read_text(encoding="utf-8"), re.MULTILINE)
    tmpfs_paths = {mount.partition(":")[0] for mount in SERVICES["capset-1"]["tmpfs"]}
    assert {path for line in volumes for path in line.split()} <= tmpfs_paths
    assert all(port.startswith("127.0.0.1:") for service in SERVICES.values() for port in service.get("ports", ()))


def statements(name: str) -> str:
    return re.sub(r"\s*#.*", "", (DEPLOY / name).read_text(encoding="utf-8"))


@pytest.mark.spec("D1")
def test_the_proxy_has_the_rules_of_the_one_on_a_host() -> None:
    compose_conf, host = (statements(name) for name in ("compose-nginx.conf", "nginx.conf"))
    location = re.compile(r"location / \{.*?\}", re.DOTALL)
    assert location.findall(compose_conf) == location.findall(host)
    assert "proxy_next_upstream off;" in compose_conf
    assert re.findall(r"client_max_body_size .*", compose_conf) == re.findall(r"client_max_body_size .*", host)
    assert re.findall(r"server (\S+);", compose_conf) == [f"{name}:8000" for name in SERVERS]
    (mounted,) = SERVICES["proxy"]["volumes"]
    assert (DEPLOY / mounted.partition(":")[0]).is_file()
    _, options = parse(SERVICES["capset-1"]["command"])
    assert (options["port"], options["host"]) == (8000, "0.0.0.0")
