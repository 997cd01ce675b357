"""The hashes of today's definitions are those that were written down: here, and in every other process."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from scripts.packages import ROOT
from tests.golden.hashing import fingerprints, payloads
from tests.golden.regenerate import GOLDEN, committed
from tests.golden.subjects import TOOLS
from tests.helpers.fingerprint.documents import for_reference

GOLDENS = committed()
# A locale that the machine does not have is passed over.
ELSEWHERE = """
import contextlib, json, locale
with contextlib.suppress(locale.Error):
    locale.setlocale(locale.LC_ALL, "")
from tests.golden.hashing import fingerprints
print(json.dumps(fingerprints()))
"""


def payload(name: str) -> dict[str, Any]:
    return json.loads(GOLDENS[name]["payload"])


@pytest.fixture(scope="module")
def today() -> dict[str, dict[str, str]]:
    return fingerprints()


@pytest.mark.spec("F12")
@pytest.mark.parametrize("name", GOLDENS)
def test_each_is_as_it_was(name: str, today: dict[str, dict[str, str]]) -> None:
    assert today[name] == GOLDENS[name], "a hash moved: read tests/golden/regenerate.py"


@pytest.mark.spec("F12")
def test_none_is_missing_and_all_differ(today: dict[str, dict[str, str]]) -> None:
    assert today.keys() == GOLDENS.keys()
    assert len(TOOLS) >= 20
    assert len(GOLDENS) >= 60
    assert len({golden["hash"] for golden in GOLDENS.values()}) == len(GOLDENS)


@pytest.mark.spec("F1", "F2")
@pytest.mark.parametrize("name", GOLDENS)
def test_anybody_can_compute_a_hash_again_from_its_payload(name: str) -> None:
    text = GOLDENS[name]["payload"].encode()
    assert hashlib.sha256(text).hexdigest() == GOLDENS[name]["hash"]
    # Read as a JavaScript engine reads: every number is a double.
    assert rfc8785.dumps(json.loads(text, parse_int=float)) == text
    assert json.loads(text)["kind"] == name.partition(" ")[0]


@pytest.mark.spec("F1")
def test_the_reference_writes_every_payload_to_the_same_bytes() -> None:
    today = payloads()
    assert {name: rfc8785.dumps(for_reference(payload)).decode() for name, (payload, _) in today.items()} == {
        name: golden["payload"] for name, golden in GOLDENS.items()
    }


@pytest.mark.realtime
@pytest.mark.spec("F1", "F12")
@pytest.mark.parametrize(
    ("seed", "locale", "flags"),
    [
        ("0", "C", ()),
        ("1", "tr_TR.UTF-8", ("-O",)),
        ("4242", "en_US.UTF-8", ("-X", "utf8=0")),
        ("random", "C.UTF-8", ("-O", "-X", "utf8=1")),
    ],
)
def test_another_process_with_another_hash_seed_locale_and_mode_gives_the_same(
    seed: str, locale: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    variables = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "TZ": "Asia/Kathmandu", "LC_ALL": locale}
    environment = os.environ | variables
    done = subprocess.run(
        [sys.executable, *flags, "-c", ELSEWHERE],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout) == GOLDENS


@pytest.mark.spec("F12")
def test_writing_the_file_anew_gives_the_committed_bytes(today: dict[str, dict[str, str]]) -> None:
    text = json.dumps(today, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    assert GOLDEN.read_bytes() == text.encode()


@pytest.mark.spec("F3")
def test_a_tools_payload_has_the_keys_of_the_specification() -> None:
    keys = {
        "kind", "name", "description", "schema", "output", "instructions", "effect", "idempotent", "permissions",
        "approval", "limits", "policies",
    }  # fmt: skip
    assert payload("tool scalars").keys() == keys
    assert payload("tool gated").keys() == keys | {"policyBindings"}
    assert payload("tool gated")["policyBindings"] == [
        {"id": "office_hours", "executeBinding": "live", "phase": "both"},
        {"id": "team.billing:v2", "executeBinding": "live", "phase": "both"},
    ]
    assert payload("tool permitted")["permissions"] == ["files:delete", "files:write"]


@pytest.mark.spec("F3")
def test_a_schema_has_its_required_sorted_and_no_title_that_was_made_up() -> None:
    schema = payload("tool scalars")["schema"]
    assert schema["required"] == ["flag", "nothing", "real", "text", "whole"]
    titled = {name for name in GOLDENS if name.startswith("tool") and '"title":"' in GOLDENS[name]["payload"]}
    assert titled == {"tool constrained", "tool open_model"}, "only the titles that somebody wrote"


@pytest.mark.spec("F3")
def test_parameters_named_like_keywords_are_parameters() -> None:
    schema = payload("tool unlucky_names")["schema"]
    assert set(schema["properties"]) == {"schema", "properties", "required", "title", "default"}
    assert schema["required"] == ["properties", "required", "schema", "title"]


@pytest.mark.spec("F6")
def test_a_capabilitys_payload_has_the_keys_of_the_specification() -> None:
    keys = {
        "kind", "name", "presets", "config", "instructions", "context", "resources", "state", "files", "policies",
        "tools", "uses", "dynamicUses",
    }  # fmt: skip
    assert payload("capability empty").keys() == keys
    assert payload("capability versioned").keys() == keys | {"version"}
    assert payload("capability instructed")["instructions"] == ["Be brief.", "Say \u00ab\u65e5\u672c\u00bb."]
    tools = payload("capability files:main")["tools"]
    assert tools == [
        {"name": name, "hash": GOLDENS[f"tool {name}"]["hash"]} for name in ("described", "no_parameters", "permitted")
    ]


@pytest.mark.spec("F7")
def test_an_agents_payload_has_its_capabilities_in_order_and_no_name() -> None:
    agent_payload = payload("agent full")
    assert agent_payload == {
        "kind": "agent",
        "root": None,
        "capabilities": [
            {"name": name, "hash": GOLDENS[f"capability {name}"]["hash"]}
            for name in ("instructed", "payments", "files:main")
        ],
        "systemPrompt": "You are \u65e5\u672c.",
        "instructions": ["Answer in one line.", "Never guess."],
    }


@pytest.mark.spec("F8")
def test_a_runtime_payload_has_exactly_the_tools_in_play_by_name() -> None:
    def in_play(*names: str) -> dict[str, Any]:
        return {"kind": "runtime", "tools": [{"name": n, "hash": GOLDENS[f"tool {n}"]["hash"]} for n in names]}

    open_to_all = ("described", "no_parameters", "scalars")
    assert payload("runtime bare") == in_play()
    assert payload("runtime full, little") == in_play("described", "gated", "no_parameters", "scalars")
    assert payload("runtime full, much, late") == in_play(
        *open_to_all[:2], "permitted", "permitted_and_gated", open_to_all[2]
    )


@pytest.mark.spec("F9")
def test_a_prompt_payload_has_the_prompt_and_the_instructions_in_order() -> None:
    assert payload("prompt full") == {
        "kind": "prompt",
        "systemPrompt": "You are \u65e5\u672c.",
        "instructions": [
            "Be brief.",
            "Say \u00ab\u65e5\u672c\u00bb.",
            "Pay only what is due.",
            "Answer in one line.",
            "Never guess.",
        ],
    }


@pytest.mark.spec("F6")
def test_a_capability_is_hashed_as_it_is_used() -> None:
    used = payload("capability switched, as used")
    assert used["presets"] == ["alpha", "off"]
    assert used["tools"] == [{"name": "s_scalars", "hash": GOLDENS["tool scalars"]["hash"]}]
    assert used["uses"] == [
        {"name": "leaf", "hash": GOLDENS["capability leaf"]["hash"]},
        {"name": "configured", "hash": GOLDENS["capability configured, as used"]["hash"]},
    ]
    assert used["dynamicUses"] == 1
    configured = payload("capability configured, as used")
    assert configured["config"] == {"limit": 3, "tags": ["alpha", "bravo", "charlie", "delta"]}
    assert [tool["name"] for tool in configured["tools"]] == ["say", "scalars"]
    assert payload("capability configured")["policies"] == ["office_hours"]


@pytest.mark.spec("F6")
def test_a_capabilitys_data_is_hashed_and_its_secrets_and_settings_are_not() -> None:
    capability = payload("capability kept")
    assert [(resource["scope"], resource["name"]) for resource in capability["resources"]] == [
        ("org", "totals"), ("session", "notebook"), ("user", "texts"),
    ]  # fmt: skip
    assert [resource["schema"] is None for resource in capability["resources"]] == [False, False, True]
    assert set(capability["state"]) == {"session", "user"}
    assert capability["files"] == [
        {"path": path, "digest": hashlib.sha256(content).hexdigest()}
        for path, content in (("/docs/a.txt", b"One."), ("/docs/b.bin", b"\x00\xff"))
    ]
    assert "API_KEY" not in GOLDENS["capability kept"]["payload"]
    assert "temperature" not in GOLDENS["capability kept"]["payload"]


@pytest.mark.spec("F6")
def test_static_context_is_hashed_in_its_order_and_a_function_by_its_name() -> None:
    assert payload("capability told")["context"] == [
        "Plain text.",
        {"tags": [["userPreferences", "tea"], ["places", {"tags": [["home", ["A", "B"]], ["work", None]]}]]},
        ["several", {"tags": [["of", "them"]]}],
        {"role": "assistant", "content": "Hello."},
        {"dynamic": "recent"},
    ]


@pytest.mark.spec("F4", "F7")
def test_an_agents_own_tools_and_policies_are_its_root_toolkit() -> None:
    assert payload("agent equipped")["root"] == GOLDENS["toolkit equipped"]["hash"]
    assert payload("toolkit equipped") == {
        "kind": "toolkit",
        "name": "root",
        "instructions": [],
        "policies": ["office_hours"],
        "policyBindings": [{"id": "office_hours", "executeBinding": "live", "phase": "both"}],
        "members": [{"name": name, "hash": GOLDENS[f"tool {name}"]["hash"]} for name in ("described", "gated")],
    }
    assert "not hashed" not in GOLDENS["agent equipped"]["payload"], "an agent's static context is not"


@pytest.mark.spec("F4", "F5")
def test_toolkits_are_hashed_with_their_members_and_dynamic_ones_without() -> None:
    bindings = [
        {"id": "by_amount", "executeBinding": "live", "phase": "call"},
        {"id": "held", "executeBinding": "snapshot", "phase": "both"},
    ]
    assert payload("dynamicToolkit reports") == {
        "kind": "dynamicToolkit",
        "name": "reports",
        "instructions": ["Made for you."],
        "policies": ["by_amount", "held"],
        "policyBindings": bindings,
    }
    outer = payload("toolkit Outer-kit")
    assert outer["instructions"] == ["First.", "Second 日本."]
    assert outer["policyBindings"] == [*bindings, {"id": "office_hours", "executeBinding": "live", "phase": "both"}]
    assert outer["members"] == [
        {"name": name, "hash": GOLDENS[f"{kind} {name}"]["hash"]}
        for kind, name in (
            ("tool", "described"),
            ("toolkit", "empty_kit"),
            ("toolkit", "inner:kit"),
            ("dynamicToolkit", "plain"),
        )
    ]


@pytest.mark.spec("F3")
def test_what_a_tool_says_beside_its_schema_is_hashed() -> None:
    tool_payload = payload("tool send")
    assert tool_payload["instructions"] == ["Ask `described` first.", "Zip before you send."]
    assert tool_payload["examples"] == [{"to": "ada", "amount": 2}, {"to": "日本", "amount": {"$int": str(2**60)}}]
    assert (tool_payload["version"], tool_payload["idempotent"]) == ("2.0.1-rc", True)
    assert tool_payload["policyBindings"][1] == {
        "id": "flags:exports",
        "executeBinding": "snapshot",
        "phase": "evaluate",
    }
    assert "timeout" not in tool_payload


@pytest.mark.spec("F10", "F14")
def test_an_invocation_is_hashed_as_plain_data() -> None:
    assert payload("invocation all")["context"] == {
        "tenant": "acme",
        "subject": {"id": {"$int": str(2**60)}, "roles": ["a", None, ["b", 1.5]]},
        "at": "2024-02-29T07:00:15.123Z",
        "now": "2024-01-01T00:00:00.000Z",
        "persona": "日本",
    }
    assert payload("invocation some")["context"] == {"tenant": "acme", "at": "2024-02-29T07:00:15.123Z"}
