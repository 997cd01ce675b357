"""``capset fingerprint``: the hashes of an agent, and the payload of each (spec 2, F2–F9)."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from pydantic_core import to_json
from rich.tree import Tree

from capset.composition.compose import compose
from capset.definitions.principals import Principal
from capset.errors import DefinitionError, NotFound
from capset.evaluation.snapshot.capture import Captured, capture
from capset.fingerprint.canonical import canonical, read
from capset.kernel.registry import Registry
from capset.wire.fingerprints import AgentHashesShape, CodeShape, CoveredShape, canonical_payloads, hashes_shape
from capset_cli.administration import administer
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Attribute, Db, Env, Grant, Who
from capset_cli.common.output import cell, err, escaped, out, print_json
from capset_cli.common.remote import Url
from capset_cli.common.settings import load_settings
from capset_cli.common.targets import find_definition, load_agent
from capset_cli.common.texts import visible

_HASH: Final = re.compile("[0-9a-f]{64}")


@guarded
def fingerprint_command(
    agent: Annotated[
        str,
        typer.Argument(
            help="A configuration file, the name of an installed agent or capability, the id of a stored agent, "
            "or a hash."
        ),
    ],
    grant: Grant = None,
    attribute: Attribute = None,
    env: Env = None,
    principal: Who = None,
    payloads: Annotated[
        bool, typer.Option("--payloads", help="Print what each hash covers, as canonical JSON.")
    ] = False,
    payload: Annotated[
        str | None, typer.Option("--payload", metavar="HASH", help="Print what this hash covers, and nothing else.")
    ] = None,
    envelope: Annotated[
        str | None,
        typer.Option(
            "--envelope", metavar="FILE", help="Write a snapshot envelope for diff and replay; - is standard output."
        ),
    ] = None,
    org: Annotated[str | None, typer.Option("--org", help="With a hash: the organisation that it belongs to.")] = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Show the hashes of an agent, of each capability, toolkit and tool in it, and of its tools' code, as a tree.

    A hash is the SHA-256 of what --payload prints. A capability is shown in an agent that has nothing else. With a hash
    instead of an agent, print what it covers: what a record names can be looked up after the agent was changed or
    deleted. Exits with 1 if a policy failed.
    """
    if _HASH.fullmatch(agent):
        of_agents = {
            "--grant": grant,
            "--attribute": attribute,
            "--env": env,
            "--principal": principal,
            "--payloads": payloads,
            "--payload": payload,
            "--envelope": envelope,
        }
        if names := [name for name, value in of_agents.items() if value]:
            raise DefinitionError(f"a hash takes no {' or '.join(names)}: they are for an agent")
        return _show_covered(agent, org=org, db=db, url=url, as_json=as_json)
    if url is not None or org is not None:
        raise DefinitionError("--url and --org look up a hash", hint="give a hash of 64 digits instead of an agent")
    _refuse_exclusive_options(payload=payload, payloads=payloads, envelope=envelope == "-", as_json=as_json)
    settings = load_settings(db=db, principal=principal, grant=grant, attribute=attribute, env=env)
    captured = asyncio.run(_capture(agent, settings.db, settings.principal, settings.env))
    code = Exit.FAILED if captured.snapshot.failures else Exit.DONE
    if payload is not None:
        _write(_find_payload(captured, payload))
        return code
    if envelope is not None:
        _write_envelope(captured, envelope)
        if envelope == "-":
            return code
    shape = hashes_shape(captured.snapshot, with_payloads=payloads)
    if as_json:
        print_json(shape.plain())
        return code
    for notice in shape.notices:
        err().print(f"[yellow]notice:[/] {escaped(notice)}", soft_wrap=True)
    console = out()
    console.print(_tree(shape, console.width), soft_wrap=True)
    for payload_hash, text in (shape.payloads or {}).items():
        # Exact for programs; escaped for terminals, where untrusted text must not move the cursor.
        _write(f"\n{payload_hash}\n{visible(text) if sys.stdout.isatty() else text}\n")
    return code


def _show_covered(hash: str, *, org: str | None, db: str | None, url: str | None, as_json: bool) -> Exit:
    """Print what a hash covers, as canonical JSON without a newline: its SHA-256 is the hash."""
    shape = administer(url, lambda admin: admin.fingerprints.get(hash), db=db, org=org)
    if as_json:
        print_json(shape.plain())
    else:
        _write(canonical(read(to_json(shape.payload))).decode())
    return Exit.DONE


async def _capture(name: str, db: str, principal: Principal, env: Mapping[str, Any]) -> Captured:
    registry = Registry.installed()
    agent = await load_agent(registry, find_definition(registry, name, db), db)
    return await capture(compose(agent), principal=principal, env=env)


def _refuse_exclusive_options(*, payload: str | None, payloads: bool, envelope: bool, as_json: bool) -> None:
    exclusive = {"--payload": payload is not None, "--envelope -": envelope}
    for name in [name for name, is_given in exclusive.items() if is_given]:
        others = [
            option for option, is_given in {**exclusive, "--payloads": payloads, "--json": as_json}.items() if is_given
        ]
        if others != [name]:
            both = " and ".join(others)
            raise DefinitionError(f"{name} prints nothing else: give one of {both}")


def _find_payload(captured: Captured, prefix: str) -> str:
    payloads = canonical_payloads(captured.snapshot)
    matches = [
        payload_hash for payload_hash in payloads if len(prefix) >= 8 and payload_hash.startswith(prefix.lower())
    ]
    if len(matches) != 1:
        several = "several hashes begin with" if matches else "no hash here is"
        raise NotFound(
            f"{several} {prefix!r}",
            hint="capset fingerprint AGENT shows them all; the hash of a tool or a prompt depends on --grant and --env",
        )
    return payloads[matches[0]]


def _write_envelope(captured: Captured, file: str) -> None:
    text = captured.envelope.to_json()
    if file == "-":
        _write(f"{text}\n")
    else:
        Path(file).write_text(f"{text}\n", encoding="utf-8")
        err().print(f"[dim]envelope in {cell(file)}[/]", soft_wrap=True)
    if dropped := captured.envelope.runtime.toolkit_context.dropped:
        notice = f"left out of the envelope, as secret or not JSON data: env {', '.join(dropped)}"
        err().print(f"[yellow]notice:[/] {cell(notice)}", soft_wrap=True)


def _write(text: str) -> None:
    """Write text as UTF-8 regardless of the terminal's encoding, because the bytes matter."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def _tree(shape: AgentHashesShape, width: int) -> Tree:
    in_play = [tool for tool in shape.tools if tool.in_play]
    tree = Tree(f"[bold]{cell(shape.agent)}[/] as seen by {cell(shape.principal)} [dim]{shape.profile}[/]")
    labels = [*_labels(shape.definition.parts, 2), *((2, tool.name) for tool in in_play), (1, "runtime_hash")]
    labels += [(1, _code_label(code)) for code in shape.code if code.hash is not None]
    column = max(4 * depth + len(label) for depth, label in labels)
    digits = 64 if column + 2 + 64 <= width else 12  # in full, unless the terminal is too narrow

    def add(parent: Tree, depth: int, label: str, hash: str) -> Tree:
        return parent.add(f"{cell(label)}{' ' * (column - 4 * depth - len(label))}  {hash[:digits]}")

    def add_parts(parent: Tree, depth: int, parts: list[CoveredShape]) -> None:
        for part in parts:
            add_parts(add(parent, depth, _label(part), part.hash), depth + 1, part.parts)

    add_parts(add(tree, 1, "static_hash", shape.static_hash), 2, shape.definition.parts)
    runtime = add(tree, 1, "runtime_hash", shape.runtime_hash)
    for tool in in_play:
        add(runtime, 2, tool.name, tool.hash)
    add(tree, 1, "prompt_hash", shape.prompt_hash)
    for code in shape.code:
        names = cell(", ".join(code.tools))
        if code.hash is None:
            tree.add(f"[dim]no code hash: {names} — {cell(code.reason or '')}[/]")
        else:
            branch = add(tree, 1, _code_label(code), code.hash)
            if len(shape.code) > 1:
                branch.add(f"[dim]{names}[/]")
    for tool in shape.tools:
        if not tool.in_play:
            tree.add(f"[dim]not in play: {cell(tool.name)} — {cell(tool.reason)}[/]")
    return tree


def _code_label(code: CodeShape) -> str:
    return f"code {' '.join(filter(None, (code.name, code.version)))}"


def _label(part: CoveredShape) -> str:
    kind = "dynamic toolkit" if part.kind == "dynamicToolkit" else part.kind
    return f"{kind} {part.name}"


def _labels(parts: list[CoveredShape], depth: int) -> Iterator[tuple[int, str]]:
    for part in parts:
        yield depth, _label(part)
        yield from _labels(part.parts, depth + 1)
