"""``capset demo``: the main task, on real files, from an agent to a verified record."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import capset
from capset.errors import DefinitionError, counted
from capset.stores.base import AuditQuery
from capset.wire.audit import AuditPageShape, record_data, verification_shape
from capset.wire.operations import DemoShape
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson
from capset_cli.common.output import err, escaped, out, print_json
from capset_cli.demo.display import show_hashes, show_records, show_session, show_skipped
from capset_cli.demo.interfaces import INTERFACES, call_interfaces, oversee, surprises_of
from capset_cli.demo.scenario import Demo, Imported, import_folders, open_demo
from capset_cli.demo.server import store_url
from capset_cli.demo.shop import console_arguments, leave_request
from capset_cli.demo.turn import calls_of, take_turn
from capset_cli.demo.turn import surprises_of as turn_surprises
from capset_cli.demo.web import WebFindings, read_the_web


@guarded
def demo_command(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders of text files; by default capset's own sources.")
    ] = None,
    into: Annotated[Path, typer.Option(help="Where to create a new folder for the database and the report.")] = Path(),
    open_console: Annotated[
        bool,
        typer.Option(
            "--open", help="Afterwards, serve the demo's database until Ctrl-C, and open the console in a browser."
        ),
    ] = False,
    as_json: AsJson = False,
) -> Exit:
    """Show what capset does: import real files into a session, work on them under governance, and verify the record.

    Then do the same over the interfaces of a server on a free local port: REST, an event stream and MCP. Have another
    principal approve a call there, and share a limit between two kernels on the database. The agent runs by itself,
    offline: it plans, reads, is refused once, and waits for an approval. Finally, another agent, from the files of
    capset init, chats until it needs an approval, which is left to you: give it in the console.
    Exits with 0 only if every call ended as expected and the chain of records holds.
    """
    sources = folders or [Path(capset.__file__).parent]
    if missing := [str(folder) for folder in sources if not folder.is_dir()]:
        raise DefinitionError(f"not a folder: {', '.join(missing)}")
    names = [folder.resolve().name for folder in sources]
    if twice := [name for name in names if names.count(name) > 1]:
        raise DefinitionError(f"two folders are named {twice[0]!r}, and files are imported under their folder's name")
    result, arguments = asyncio.run(_run(err() if as_json else out(), sources, _create_folder(into)))
    if as_json:
        print_json(result.plain())
    code = Exit.REFUSED if not result.verification.ok else Exit.FAILED if result.surprises else Exit.DONE
    if open_console and code == Exit.DONE:
        return _serve_console(arguments)
    return code


def _serve_console(arguments: list[str]) -> Exit:
    """Run a command that serves until Ctrl-C, which it gets, too, and wait until it has closed what it has open."""
    command = [sys.executable, "-c", "from capset_cli import main; main()", *arguments, "--port", "0"]
    with subprocess.Popen(command) as process:  # noqa: S603 - capset itself, which reports its own errors
        while True:
            try:
                return Exit.FAILED if process.wait() else Exit.DONE
            except KeyboardInterrupt:
                continue


async def _run(console: Console, sources: list[Path], folder: Path) -> tuple[DemoShape, list[str]]:
    """Run all parts; return their outcome, and the arguments of the command that shows it in the console."""
    async with open_demo(store_url(folder), console) as demo:
        session = demo.session.id
        show_session(console, demo.session, folder)
        console.rule("[bold]1. Import[/]", align="left")
        imported = await import_folders(demo.session.files, sources)
        show_skipped(err(), imported.skipped)
        console.print(f"{counted(imported.files, 'file')}, {imported.size_bytes:,} bytes in the session's files")
        console.rule("[bold]2. Governed calls[/]", align="left")
        await demo.run()
        console.rule("[bold]3. The web, with its sources, and a sandbox[/]", align="left")
        research = await _research(console, demo)
        console.rule("[bold]4. The record[/]", align="left")
        result = await _conclude(console, demo, imported, folder, research)
    console.rule("[bold]5. The same over a server's interfaces[/]", align="left")
    result = await _serve(console, result, sources)
    console.rule("[bold]6. An approval, and a limit that two kernels share[/]", align="left")
    result = await _oversee(console, result)
    console.rule("[bold]7. The agent runs, offline[/]", align="left")
    result = await _take_turn(console, result, session)
    console.rule("[bold]8. A chat with a request that waits for you[/]", align="left")
    result, has_request = await _leave_request(console, result)
    arguments = console_arguments(folder, has_request=has_request)
    purpose = "approve it" if has_request else "see the record"
    command = escaped(shlex.join(["capset", *arguments]))
    console.print(f"{purpose} in the console, without signing in: [bold]{command}[/]", soft_wrap=True)
    return result, arguments


async def _research(console: Console, demo: Demo) -> str | None:
    if not demo.report:
        console.print("there is no report to read")
        return None
    lines = [line for line in demo.report.splitlines() if line]
    return await read_the_web(console, demo.kernel, demo.calls, WebFindings(lines[1:], demo.sizes))


async def _serve(console: Console, result: DemoShape, sources: list[Path]) -> DemoShape:
    calls = await call_interfaces(console, Path(result.folder), sources)
    surprises = [
        f"the call over {call.door} ended as {call.outcome}" for call in calls or () if call.outcome != "succeeded"
    ]
    if calls is not None and (
        [call.door for call in calls] != INTERFACES or len({call.runtime_hash for call in calls}) != 1
    ):
        surprises.append("not every interface left a record with the same runtime_hash")
    _show_surprises(surprises)
    return result.model_copy(update={"doors": calls, "surprises": [*result.surprises, *surprises]})


async def _oversee(console: Console, result: DemoShape) -> DemoShape:
    calls = await oversee(console, Path(result.folder))
    surprises = [] if calls is None else surprises_of(calls)
    _show_surprises(surprises)
    return result.model_copy(update={"oversight": calls, "surprises": [*result.surprises, *surprises]})


async def _take_turn(console: Console, result: DemoShape, session: str) -> DemoShape:
    events = await take_turn(console, store_url(Path(result.folder)), session)
    surprises = [] if events is None else turn_surprises(events)
    _show_surprises(surprises)
    calls = None if events is None else calls_of(events)
    return result.model_copy(update={"turn": calls, "surprises": [*result.surprises, *surprises]})


async def _leave_request(console: Console, result: DemoShape) -> tuple[DemoShape, bool]:
    has_request = await leave_request(console, Path(result.folder))
    surprises = ["the refund does not wait for an approval"] if has_request is False else []
    _show_surprises(surprises)
    return result.model_copy(update={"surprises": [*result.surprises, *surprises]}), bool(has_request)


async def _conclude(console: Console, demo: Demo, imported: Imported, folder: Path, research: str | None) -> DemoShape:
    await demo.kernel.audit.flush()
    page = await demo.kernel.audit.query(AuditQuery(limit=1000))
    show_records(console, page)
    verification = await demo.kernel.audit.verify()
    if verification.ok:
        console.print(f"[green]consistent:[/] {counted(verification.checked, 'record')}, every hash holds")
        console.print("[dim]the numbers missing above are intents, written before a side effect[/]")
    else:
        console.print(f"[red]not verified:[/] {escaped(verification.problem or '')}")
    show_hashes(console, demo.session)
    exported = {
        name: _export(console, folder / name, text)
        for name, text in (("report.md", demo.report), ("research.md", research))
    }
    console.print(
        f"query the records with: capset audit query --db {escaped(str(folder / 'capset.db'))}", soft_wrap=True
    )
    _show_surprises(demo.calls.surprises)
    return DemoShape(
        folder=str(folder),
        report=exported["report.md"],
        research=exported["research.md"],
        files=imported.files,
        size_bytes=imported.size_bytes,
        skipped=imported.skipped,
        records=AuditPageShape(items=list(map(record_data, page.items)), next=page.next),
        verification=verification_shape(verification),
        surprises=demo.calls.surprises,
    )


def _export(console: Console, file: Path, text: str | None) -> str | None:
    """Write a text to a file, if there is one, and return the file's path."""
    if not text:
        return None
    file.write_text(text, encoding="utf-8")
    console.print(f"[green]exported:[/] {escaped(str(file))}", soft_wrap=True)
    return str(file)


def _show_surprises(surprises: list[str]) -> None:
    for surprise in surprises:
        err().print(f"[red]not as expected:[/] {escaped(surprise)}", soft_wrap=True)


def _create_folder(into: Path) -> Path:
    """Create and return a new folder: ``capset-demo``, or that name with the first free number."""
    number = 1
    while True:
        folder = into / ("capset-demo" if number == 1 else f"capset-demo-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        except OSError as error:
            raise DefinitionError(f"{folder} cannot be created: {error.strerror}") from None
        else:
            return folder
