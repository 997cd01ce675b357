"""The manifests of ``deploy/kubernetes``: valid, restricted, and true to the command line and to each other."""

from __future__ import annotations

import base64
import binascii
import copy
import re
from typing import Any, Final

import pytest
import yaml
from kubernetes_validate import ValidationError, validate  # pyright: ignore[reportMissingTypeStubs]
from kubernetes_validate.utils import all_versions, major_minor  # pyright: ignore[reportMissingTypeStubs]

from capset.kernel import kernel, runtime
from capset_server.http.uvicorn_server import DRAIN_SECONDS
from capset_server.mcp import http as mcp
from tests.deploy.manifests import DEPLOY, KUBERNETES, container_of, manifests, parse, pod_of, variables_of

MANIFESTS: Final = manifests()
VERSIONS: Final = sorted(
    {major_minor(version) for version in all_versions()}, key=lambda version: int(version.partition(".")[2])
)
WORKLOADS: Final = ("deployment.yaml", "migrate.yaml")


@pytest.mark.spec("D2")
@pytest.mark.parametrize("version", [VERSIONS[0], VERSIONS[-1]])
def test_every_manifest_fits_the_schemas_of_the_oldest_and_the_newest_known_version(version: str) -> None:
    assert len(MANIFESTS) > 8
    for name, manifest in MANIFESTS.items():
        assert validate(manifest, version, strict=True) == version, name


@pytest.mark.nightly
@pytest.mark.spec("D2")
@pytest.mark.parametrize("version", VERSIONS[1:-1])
def test_every_manifest_fits_the_schemas_of_the_versions_between(version: str) -> None:
    for name, manifest in MANIFESTS.items():
        assert validate(manifest, version, strict=True) == version, name


@pytest.mark.spec("D2")
def test_a_field_that_kubernetes_does_not_know_is_noticed() -> None:
    wrong = copy.deepcopy(MANIFESTS["deployment.yaml"])
    container_of(wrong)["readinesProbe"] = {}
    with pytest.raises(ValidationError, match="readinesProbe"):
        validate(wrong, VERSIONS[-1], strict=True)


@pytest.mark.spec("D2")
def test_kustomize_applies_every_manifest_but_the_example_and_what_is_optional() -> None:
    text = (KUBERNETES / "kustomization.yaml").read_text(encoding="utf-8")
    kustomization = yaml.safe_load(text)
    named = {*kustomization["resources"], *re.findall(r"^  # - (\S+)$", text, re.MULTILINE)}
    assert named == MANIFESTS.keys() - {"secret.example.yaml"}
    assert kustomization["namespace"] == MANIFESTS["namespace.yaml"]["metadata"]["name"]
    assert {image["name"] for image in kustomization["images"]} == {
        container_of(MANIFESTS[name])["image"] for name in WORKLOADS
    }


@pytest.mark.spec("D2")
@pytest.mark.parametrize("name", WORKLOADS)
def test_a_pod_asks_for_no_more_than_the_restricted_standard_allows(name: str) -> None:
    pod, container = pod_of(MANIFESTS[name]), container_of(MANIFESTS[name])
    assert MANIFESTS["namespace.yaml"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    user = re.findall(r"^USER (\d+):(\d+)$", (DEPLOY / "Containerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert user == [(str(pod["securityContext"]["runAsUser"]), str(pod["securityContext"]["runAsGroup"]))]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & pod.keys()
    assert all(volume.keys() == {"name", "emptyDir"} for volume in pod["volumes"])
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
    assert container["resources"].keys() == {"requests", "limits"}


@pytest.mark.spec("D2")
@pytest.mark.parametrize(("name", "command"), [("deployment.yaml", "serve"), ("migrate.yaml", "db upgrade")])
def test_a_container_runs_a_command_that_there_is_with_variables_that_it_reads(name: str, command: str) -> None:
    container = container_of(MANIFESTS[name])
    command_name, _ = parse(container["args"])
    assert command_name == f"capset {command}"
    (config,), (secret,) = (
        [source[kind]["name"] for source in container["envFrom"] if kind in source]
        for kind in ("configMapRef", "secretRef")
    )
    assert config == MANIFESTS["configmap.yaml"]["metadata"]["name"]
    assert secret == MANIFESTS["secret.example.yaml"]["metadata"]["name"]
    variables = {*MANIFESTS["configmap.yaml"]["data"], *MANIFESTS["secret.example.yaml"]["stringData"]}
    assert variables - variables_of("serve") == {"PGPASSWORD"}, "libpq's, and no other"


@pytest.mark.spec("D2")
def test_the_example_of_a_secret_holds_none() -> None:
    with pytest.raises(binascii.Error):
        base64.b64decode(MANIFESTS["secret.example.yaml"]["stringData"]["CAPSET_CHECKPOINT_KEY"], validate=True)
    text = "\n".join(path.read_text(encoding="utf-8") for path in KUBERNETES.iterdir())
    assert not re.search(r"[A-Za-z0-9+/]{40,}={0,2}", text)


def fits(selector: dict[str, str], manifest: Any) -> bool:
    return selector.items() <= manifest["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.spec("D2")
def test_what_chooses_pods_chooses_the_servers_alone() -> None:
    servers, migrates = MANIFESTS["deployment.yaml"], MANIFESTS["migrate.yaml"]
    chosen = (
        servers["spec"]["selector"]["matchLabels"],
        MANIFESTS["service.yaml"]["spec"]["selector"],
        MANIFESTS["disruption-budget.yaml"]["spec"]["selector"]["matchLabels"],
        *(constraint["labelSelector"]["matchLabels"] for constraint in pod_of(servers)["topologySpreadConstraints"]),
    )
    assert all(fits(selector, servers) and not fits(selector, migrates) for selector in chosen)
    everything = MANIFESTS["network-policy.yaml"]["spec"]["podSelector"]["matchLabels"]
    assert fits(everything, servers)
    assert fits(everything, migrates)


@pytest.mark.spec("D2")
def test_requests_find_their_way_from_the_ingress_to_the_servers() -> None:
    (rule,) = MANIFESTS["ingress.yaml"]["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    service, container = MANIFESTS["service.yaml"], container_of(MANIFESTS["deployment.yaml"])
    assert path["backend"]["service"]["name"] == service["metadata"]["name"]
    (port,) = service["spec"]["ports"]
    assert path["backend"]["service"]["port"] == {"name": port["name"]}
    (open_port,) = container["ports"]
    assert port["targetPort"] == open_port["name"]
    _, options = parse(container["args"])
    assert (options["port"], options["host"]) == (open_port["containerPort"], "0.0.0.0")
    assert MANIFESTS["configmap.yaml"]["data"]["CAPSET_PUBLIC_URL"] == f"https://{rule['host']}", "its Host is allowed"
    (allowed,) = MANIFESTS["network-policy.yaml"]["spec"]["ingress"]
    assert [allowed_port["port"] for allowed_port in allowed["ports"]] == [open_port["name"]]


@pytest.mark.spec("D2")
def test_an_upgrade_takes_no_server_away_before_another_is_ready() -> None:
    spec = MANIFESTS["deployment.yaml"]["spec"]
    assert spec["replicas"] >= 2
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert MANIFESTS["disruption-budget.yaml"]["spec"]["maxUnavailable"] < spec["replicas"]
    scaling = MANIFESTS["autoscaler.yaml"]["spec"]
    assert scaling["scaleTargetRef"]["name"] == MANIFESTS["deployment.yaml"]["metadata"]["name"]
    assert scaling["minReplicas"] == spec["replicas"]
    assert scaling["maxReplicas"] * 11 < 100, "connections to PostgreSQL"


def ending_seconds(delay: float) -> float:
    """Return how long a server may take to end: each part of its shutdown for as long as it may take at most."""
    calls = mcp.DRAIN_SECONDS + kernel.DRAIN_SECONDS + runtime.CLEANUP_SECONDS
    return delay + DRAIN_SECONDS + calls + 10.0  # the collector of traces, as docs/guide/operate.md says


@pytest.mark.spec("D3")
def test_a_pod_is_left_alone_before_it_ends_and_is_given_the_time_for_it() -> None:
    pod, container = pod_of(MANIFESTS["deployment.yaml"]), container_of(MANIFESTS["deployment.yaml"])
    _, options = parse(container["args"])
    ready = container["readinessProbe"]
    assert ready["periodSeconds"] * ready["failureThreshold"] < options["drain_delay"]
    assert ending_seconds(options["drain_delay"]) < pod["terminationGracePeriodSeconds"]
