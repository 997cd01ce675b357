"""The third part of the demo: a web page, research with its source, and code that checks the numbers."""

from __future__ import annotations

import asyncio
import contextlib
import html
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console

from capset.definitions.agents import Agent
from capset.definitions.capabilities import parse_config
from capset.definitions.principals import Principal
from capset.definitions.references import AnyRef, as_ref
from capset.extras import install_command
from capset.kernel.call.session import Session
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.wire.capabilities import readiness_of
from capset_cli.common.exits import missing_modules
from capset_cli.common.output import err, escaped
from capset_cli.demo.display import CallFailed, Calls
from capset_cli.demo.scenario import TITLE

MODULES: Final = ("httpx2", "html_to_markdown", "pydantic_monty")
"""The modules of the extras ``web`` and ``sandbox`` that this part needs."""
CAPABILITIES: Final = ("research", "sandbox", "session_file_system")
READER: Final = Principal(
    "reader",
    permissions={"http:read", "research:write", "sandbox:execute", "session_files:read", "session_files:write"},
)
_SUM_CODE: Final = "import json\nfrom pathlib import Path\nsum(json.loads(Path('/sizes.json').read_text()))"
_COUNT_CODE: Final = "tr -cd '0-9\\n' < /page.md | grep -c '[0-9]' | tee /lines.txt"
_READ_CODE: Final = "open('/etc/passwd').read()"


@dataclass(frozen=True, slots=True)
class WebFindings:
    """The findings of the first part: the lines of its report, and the sizes that it added up."""

    lines: list[str]
    sizes: list[int]


async def read_the_web(console: Console, kernel: Kernel, calls: Calls, findings: WebFindings) -> str | None:
    """Read the report as a web page, note its contents, check its sums, and return the report of the research.

    Returns ``None`` if a call fails, or, after a message, if the extras are missing.
    """
    if missing := missing_modules(*MODULES):
        needed = escaped(install_command("web", "sandbox"))
        err().print(f"[yellow]skipped:[/] this needs {needed} ({', '.join(missing)})", soft_wrap=True)
        return None
    async with serving_page(TITLE, findings.lines) as host:
        console.print(f"http://{host} is the demo's own server, and the only host of this machine that tools may reach")
        with contextlib.suppress(CallFailed):
            async with kernel.open(_researcher(host), principal=READER) as session:
                return await _make_calls(calls, session, host, findings)
    return None


async def _make_calls(calls: Calls, session: Session, host: str, findings: WebFindings) -> str:
    page = await calls.call(session, "web_fetch", url=f"http://{host}/report", as_markdown=True)
    if not page["content"].startswith(f"# {TITLE}\n") or "alert" in page["content"]:
        calls.surprises.append("web_fetch did not give the page as Markdown")
    await calls.expect_refusal(session, "address_refused", "web_fetch", url="http://169.254.169.254/latest/meta-data/")
    source = (await calls.call(session, "research_fetch", url=f"http://{host}/report"))["source"]
    await calls.call(session, "research_note", text="The report adds up the largest files.", sources=[source])
    await calls.call(session, "research_search", query="files together", limit=3)
    await calls.call(session, "write_file", path="/sizes.json", content=json.dumps(findings.sizes))
    await calls.call(session, "write_file", path="/page.md", content=page["content"])
    total = await calls.call(session, "execute_code", language="python", code=_SUM_CODE)
    if total["value"] != str(sum(findings.sizes)):
        calls.surprises.append(f"the sandbox adds up to {total['value']}, not to {sum(findings.sizes)}")
    await _count(calls, session)
    reading = await calls.call(session, "execute_code", language="python", code=_READ_CODE)
    if reading["exit_code"] == 0:
        calls.surprises.append("the sandbox let code read a file of this machine")
    text = f"Added up again, the sizes are {total['value']} bytes [{source}]."
    await calls.call(session, "research_note", text=text, topic="Checked")
    report: dict[str, Any] = await calls.call(session, "research_report", title="What was read and checked")
    return report["report"]


async def _count(calls: Calls, session: Session) -> None:
    """Have bash count in a session's file; where bash cannot be isolated, expect the call to be refused."""
    if readiness_of(Registry.installed().get("sandbox")).get("bash") != "isolated-bash":
        await calls.expect_refusal(session, "sandbox_unavailable", "execute_code", language="bash", code=_COUNT_CODE)
        return
    counted = await calls.call(session, "execute_code", language="bash", code=_COUNT_CODE)
    if counted["files"]["created"] != ["/lines.txt"]:
        calls.surprises.append("bash did not leave its file in the session")


def _researcher(host: str) -> Agent:
    registry = Registry.installed()
    return Agent(
        "researcher",
        system_prompt="You read what is there, say where you have it from, and check every number.",
        uses=[
            _with_config(registry, "web_fetch", {"allow": [host]}),
            *map(registry.get, CAPABILITIES),
        ],
    )


def _with_config(registry: Registry, name: str, config: dict[str, Any]) -> AnyRef:  # JSON data
    """Return a capability with a config as in a file: installed capabilities are known only by name."""
    ref = as_ref("the demo", registry.get(name))
    if ref.base.config is None:
        return ref
    return ref.with_config(parse_config(ref.base.config, json.dumps(config).encode()))


@asynccontextmanager
async def serving_page(title: str, lines: list[str]) -> AsyncGenerator[str]:
    """Serve a page with a heading and one line per paragraph for every request; yield its ``host:port``."""
    body = page_of(title, lines).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head.encode() + body)
            await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


def page_of(title: str, lines: list[str]) -> str:
    """Return an HTML page, with a script that a conversion must leave out."""
    paragraphs = "\n".join(f"<p>{html.escape(line)}</p>" for line in lines)
    return f"""<!doctype html>
<html lang="en"><head><title>{html.escape(title)}</title><script>alert("not for readers")</script></head>
<body><h1>{html.escape(title)}</h1>
{paragraphs}
</body></html>"""
