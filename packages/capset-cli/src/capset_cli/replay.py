"""``capset replay``: what an agent could do when a snapshot was stored, and can do now (spec 2, F33)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from capset.definitions.principals import Principal
from capset.errors import DefinitionError
from capset.evaluation.compare.sides import Side, stored_side
from capset.evaluation.replay.evaluation import Replay, principal_of, replay, replay_lines
from capset.evaluation.snapshot.envelope import SnapshotEnvelope
from capset.kernel.registry import Registry
from capset.wire.diffs import replay_shape
from capset_cli.common.exits import Exit, guarded, ignoring_closed_pipe
from capset_cli.common.options import AsJson, Db
from capset_cli.common.output import out, print_json
from capset_cli.common.settings import load_settings, parse_attributes, parse_env, require_db
from capset_cli.common.targets import agent_of_link, find_definition, load_agent, open_store
from capset_cli.diff import Org, print_report, resolve_side


@guarded
def replay_command(
    envelope: Annotated[
        str, typer.Argument(help="A file with an envelope, - for stdin, or the id of a stored envelope or of its link.")
    ],
    agent: Annotated[
        str | None,
        typer.Option(help="The current agent: a file, the name of an installed agent, or the id of a stored one."),
    ] = None,
    principal: Annotated[
        str | None, typer.Option(help="Who acts, with only the permissions and attributes of --grant and --attribute.")
    ] = None,
    grant: Annotated[
        list[str] | None,
        typer.Option(help="A permission of the principal, replacing the stored ones; may be repeated."),
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="An attribute of the principal, replacing the stored ones; may be repeated."
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="A value that policies read in request.env besides the stored ones; may be repeated.",
        ),
    ] = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 3 if then and now differ.")] = False,
    org: Org = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Evaluate a stored snapshot against today's definitions: what the agent could do then, and can do now.

    By default, the principal, the env and the agent are those of the envelope. No tool is called. Exits with 1 if a
    policy fails now.
    """
    overrides = Overrides(agent, principal, org, grant, parse_attributes(attribute), env)
    result = asyncio.run(_replay(envelope, overrides, load_settings(db=db).db))
    with ignoring_closed_pipe():
        if as_json:
            print_json(replay_shape(result).plain())
        else:
            print_report(replay_lines(result, width=out().width))
    if result.now.snapshot.failures:
        return Exit.FAILED
    return Exit.DIFFERENT if exit_code and result.differs else Exit.DONE


@dataclass(frozen=True, slots=True)
class Overrides:
    """The options that replace stored values. ``None``, or no attributes, stands for the stored value."""

    agent: str | None
    principal: str | None
    org: str | None
    grant: list[str] | None
    attributes: Mapping[str, Any]
    env: list[str] | None


async def _replay(reference: str, overrides: Overrides, db: str) -> Replay:
    env_overrides = parse_env(overrides.env)
    envelope = await _envelope(reference, overrides.org, db)
    registry = Registry.installed()
    if overrides.agent is None:
        agent = await agent_of_link(registry, envelope.link, overrides.org, db)
    else:
        agent = await load_agent(registry, find_definition(registry, overrides.agent, db), db, org=overrides.org)
    env = {**envelope.runtime.toolkit_context.env, **env_overrides} if env_overrides else None
    return await replay(envelope, agent, principal=_principal(envelope, overrides), env=env)


async def _envelope(reference: str, org: str | None, db: str) -> SnapshotEnvelope:
    side = resolve_side(reference)
    if isinstance(side, Path):
        raise DefinitionError(
            f"{reference} is a configuration file: replay needs an envelope",
            hint=f"write one with capset fingerprint {reference} --envelope FILE",
        )
    if not isinstance(side, Side):
        async with open_store(require_db(db)) as store:
            side = await stored_side(store.lineage, org, str(side))
    if side.envelope is None:
        raise DefinitionError(
            f"{reference} is a link, which has hashes only: replay needs an envelope",
            hint="capset diff A B compares links",
        )
    return side.envelope


def _principal(envelope: SnapshotEnvelope, overrides: Overrides) -> Principal | None:
    if overrides.principal is not None:
        return Principal(
            overrides.principal, org=overrides.org, permissions=overrides.grant or (), attributes=overrides.attributes
        )
    if overrides.grant is None and not overrides.attributes:
        return None
    stored = principal_of(envelope)
    permissions = stored.permissions if overrides.grant is None else overrides.grant
    return replace(stored, permissions=permissions, attributes=overrides.attributes or stored.attributes)
