"""``capset replay``: what an agent could do when a snapshot was stored, and can do now (spec 2, F33)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from capset.definitions.principals import Principal
from capset.errors import DefinitionError
from capset.evaluation.compare.sides import Side, stored_side
from capset.evaluation.replay.evaluation import Replay, principal_of, replay, replay_lines
from capset.evaluation.snapshot.envelope import SnapshotEnvelope
from capset.kernel.registry import Registry
from capset.wire.diffs import replay_shape
from capset_cli.common.exits import Exit, ended, guarded
from capset_cli.common.options import AsJson, Db
from capset_cli.common.output import out, print_json
from capset_cli.common.settings import existing_db, given_attributes, given_env, load_settings
from capset_cli.common.targets import agent_of, find_definition, load, opened_store
from capset_cli.diff import KeptFor, resolve_side, show_lines


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
    org: KeptFor = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Evaluate a stored snapshot against today's definitions: what the agent could do then, and can do now.

    By default, the principal, the env and the agent are those of the envelope. No tool is called. Exits with 1 if a
    policy fails now.
    """
    today = Today(agent, principal, org, grant, given_attributes(attribute), env)
    done = asyncio.run(_replayed(envelope, today, load_settings(db=db).db))
    with ended():
        if as_json:
            print_json(replay_shape(done).plain())
        else:
            show_lines(replay_lines(done, width=out().width))
    if done.now.snapshot.failures:
        return Exit.FAILED
    return Exit.DIFFERENT if exit_code and done.differs else Exit.DONE


@dataclass(frozen=True, slots=True)
class Today:
    """The options for today's evaluation. ``None``, or no attributes, stands for the stored value."""

    agent: str | None
    principal: str | None
    org: str | None
    grant: list[str] | None
    attributes: Mapping[str, Any]
    env: list[str] | None


async def _replayed(named: str, today: Today, db: str) -> Replay:
    env_overrides = given_env(today.env)
    envelope = await _envelope(named, today.org, db)
    registry = Registry.installed()
    if today.agent is None:
        agent = await agent_of(registry, envelope.link, today.org, db)
    else:
        agent = await load(registry, find_definition(registry, today.agent, db), db, org=today.org)
    env = {**envelope.runtime.toolkit_context.env, **env_overrides} if env_overrides else None
    return await replay(envelope, agent, principal=_principal(envelope, today), env=env)


async def _envelope(named: str, org: str | None, db: str) -> SnapshotEnvelope:
    side = resolve_side(named)
    if not isinstance(side, Side):
        async with opened_store(existing_db(db)) as store:
            side = await stored_side(store.lineage, org, str(side))
    if side.envelope is None:
        raise DefinitionError(
            f"{named} is a link, which has hashes only: replay needs an envelope",
            hint="capset diff A B compares links",
        )
    return side.envelope


def _principal(envelope: SnapshotEnvelope, today: Today) -> Principal | None:
    if today.principal is not None:
        return Principal(today.principal, org=today.org, permissions=today.grant or (), attributes=today.attributes)
    if today.grant is None and not today.attributes:
        return None
    then = principal_of(envelope)
    permissions = then.permissions if today.grant is None else today.grant
    return replace(then, permissions=permissions, attributes=today.attributes or then.attributes)
