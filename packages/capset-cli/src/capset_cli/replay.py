"""``capset replay``: the abilities of an agent when a snapshot was stored, and now (spec 2, F33)."""

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
        str, typer.Argument(help="A file with an envelope, - for stdin, or the id of one, or of the link it is of.")
    ],
    agent: Annotated[
        str | None,
        typer.Option(help="Today's agent: a file, an installed one by its name, or the id of a stored one."),
    ] = None,
    principal: Annotated[str | None, typer.Option(help="Who acts, by --grant and --attribute alone.")] = None,
    grant: Annotated[
        list[str] | None, typer.Option(help="A permission of the principal, in the place of those then; repeatable.")
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An attribute of theirs, in the place of those then; repeatable."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="What policies read as request.env beside what was kept; repeatable."),
    ] = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="End with 3 if then and now differ.")] = False,
    org: KeptFor = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Evaluate a snapshot that was kept against today's definitions: what the agent could do then, and can do now.

    Principal and env are those of then, unless options say otherwise; the agent is the one that the envelope names. No
    tool is called. It ends with 1 if a policy fails now.
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
    """The command line's values for today; ``None``, and no attributes, means as it was then."""

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
            f"{named} is a link, which has hashes only: what was in play then is in an envelope",
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
