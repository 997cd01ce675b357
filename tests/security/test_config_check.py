"""Checking a configuration over REST looks at its text alone: every case of config_check.yaml (spec 5, P12)."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from capset_connect.config_file.checks import check_text
from tests.helpers.server.support import Site, site
from tests.security.attacks import attacks

WATCHED = {"open", "import", "os.listdir", "os.scandir", "os.system", "subprocess.Popen", "glob.glob"}
SEEN: list[tuple[str, str]] = []
IS_WATCHING = [False]


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if IS_WATCHING[0] and event in WATCHED:
        SEEN.append((event, str(arguments)[:200]))


@pytest.fixture(scope="module", autouse=True)
def watching() -> None:
    """Hear of what the interpreter does; such a hook stays for ever, and is silent unless a test asks."""
    sys.addaudithook(_watch)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with things to be found, and work in it."""
    folder = tmp_path.resolve()
    (folder / "there").mkdir()
    (folder / "there.py").write_text(f"open({str(folder / 'there.mark')!r}, 'w').close()\ndef handler(params): ...\n")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture(scope="module")
async def here() -> AsyncGenerator[Site]:
    """Give a server."""
    async with site() as server:
        await server.key("reader", scopes=["capset:read"], permissions=[])
        yield server


@pytest.fixture
async def reader(here: Site, root: Path) -> AsyncGenerator[httpx2.AsyncClient]:
    """Give the client of somebody who may only read; what a first check loads is loaded."""
    async with here.client("reader") as client:
        for file_format in ("yaml", "json", "toml"):
            await check(
                client, {"content": "actions = [" if file_format == "toml" else "[", "format": file_format}, root
            )
        sound = "actions: [{name: a, description: d, permissions: [], handler: ./a.py}]\ngovernance: {redact: [x]}"
        await check(client, {"content": f"{sound}\naudit: {{key: k}}"}, root)
        yield client


def written(case: dict[str, Any], root: Path) -> str:
    """Return the text of a case."""
    filled = {
        "{root}": str(root),
        "{aliases}": "\n".join(
            ["a0: &a0 [1]", *[f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]]
        ),
        "{levels}": "[" * 50_000,
        "{sixties}": "1" + ":1" * 100_000,
        "{digits}": "9" * 200_000,
        "{dots}": "a." * 130_000 + "a",
        "{name}": "k" * 131_000,
        "{zeros}": ",".join("0" * 40_000),
        "{members}": "\n".join(f"k{n}=1" for n in range(14_000)),
    }
    content = case["content"]
    for name, value in filled.items():
        content = content.replace(name, value)
    return content


async def check(
    client: httpx2.AsyncClient, case: dict[str, Any], root: Path, change: Callable[[str], str] = str
) -> Any:
    """Send a case, and return what is said of it."""
    body = {"content": change(written(case, root)), "format": case.get("format", "yaml")}
    answer = await client.post("/v1/config/check", json=body)
    assert answer.status_code == 200, answer.text
    assert "site-packages" not in answer.text
    return answer.json()


@pytest.mark.realtime
@pytest.mark.spec("P12", "G28")
@pytest.mark.parametrize("case", attacks("config_check.yaml", "code"))
async def test_no_code_is_loaded(case: dict[str, Any], here: Site, reader: httpx2.AsyncClient, root: Path) -> None:
    before = set(sys.modules)
    SEEN.clear()
    IS_WATCHING[0] = True
    try:  # what the server's own process for it does cannot be watched: it calls this function
        check_text(written(case, root), case.get("format", "yaml"), here.registry)
    finally:
        IS_WATCHING[0] = False
    report = await check(reader, case, root)
    assert SEEN == []
    assert not (root / "there.mark").exists()
    assert {"antigravity", "there"} & (set(sys.modules) - before) == set()
    assert report["valid"], report
    unchecked = [warning["path"] for warning in report["warnings"] if "checked" in warning["message"]]
    assert unchecked == [case.get("warns", "handler")]


@pytest.mark.spec("P12")
@pytest.mark.parametrize("case", attacks("config_check.yaml", "outside"))
async def test_what_leads_out_is_refused_unseen(case: dict[str, Any], reader: httpx2.AsyncClient, root: Path) -> None:
    report = await check(reader, case, root)
    assert not report["valid"], report
    assert "actions" not in report
    assert not (root / "there.mark").exists()


@pytest.mark.spec("P12", "P14")
@pytest.mark.parametrize("case", attacks("config_check.yaml", "exists"))
async def test_nobody_is_told_what_there_is(case: dict[str, Any], reader: httpx2.AsyncClient, root: Path) -> None:
    existing = await check(reader, case, root)
    gone = await check(reader, case, root, lambda content: content.replace("there", "gone"))
    assert gone["valid"] == existing["valid"]
    assert str(gone) == str(existing).replace("there.py", "gone.py").replace("/there", "/gone")


@pytest.mark.nightly
@pytest.mark.spec("P12", "P15")
@pytest.mark.parametrize("case", attacks("config_check.yaml", "heavy"))
async def test_what_is_heavy_is_answered_in_time(case: dict[str, Any], reader: httpx2.AsyncClient, root: Path) -> None:
    started = time.monotonic()
    report = await check(reader, case, root)
    assert time.monotonic() - started < 60
    assert not report["valid"], report
    assert "root:" not in str(report)
