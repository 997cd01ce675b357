"""``capset serve --http-limit`` (spec 5, P34, P46)."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import httpx2
import pytest

from capset.errors import DefinitionError
from capset_cli.serve.limits import request_limits
from capset_server.http.request_rules import RequestLimits
from tests.helpers.server.running import running

pytestmark = pytest.mark.spec("P34", "P46")


def test_each_limit_has_its_own_number() -> None:
    limits = request_limits(["body=2_000", "send_seconds=1.5"], file=7)
    assert (limits.body, limits.send_seconds, limits.file, limits.head) == (2_000, 1.5, 7, RequestLimits().head)
    assert request_limits(["file=9"], file=7).file == 9
    assert [request_limits(switch, file=7).shield for switch in ([], ["shield=on"], ["shield=off"])] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("bodies=1", "unknown limit 'bodies'; did you mean 'body'"),
        ("body", "must be NAME=NUMBER"),
        ("body=", "must be NAME=NUMBER"),
        ("body=0", "above 0"),
        ("body=1.5", "a whole number above 0"),
        ("body=-1", "above 0"),
        ("send_seconds=nan", "a number above 0"),
        ("send_seconds=inf", "a number above 0"),
        ("shield=0", "on or off"),
    ],
)
def test_others_are_refused(option: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        request_limits([option], file=7)
    with pytest.raises(DefinitionError, match="twice"):
        request_limits(["body=1", "body=2"], file=7)


def test_every_limit_is_documented() -> None:
    page = Path("docs/guide/operate.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\|[^|]*\|[^|]*\| `(\w+)` \|", page, re.MULTILINE))
    assert {field.name for field in fields(RequestLimits)} <= named


@pytest.mark.realtime
def test_a_server_holds_them(tmp_path: Path) -> None:
    with running(tmp_path, "--http-limit", "body=1000") as server:
        headers = {
            "authorization": f"Bearer {server.key(scopes=('capset:admin',))}",
            "content-type": "application/json",
        }
        answer = httpx2.post(f"{server.url}/v1/agents", content=b" " * 1_001, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
        assert "1000 bytes" in answer.json()["detail"]
