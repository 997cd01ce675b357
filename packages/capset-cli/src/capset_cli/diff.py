"""``capset diff``: the differences between two versions (spec 2, F31)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, cast
from uuid import UUID

import typer
from pydantic import ValidationError
from pydantic_core import from_json

from capset.composition.compose import compose
from capset.errors import DefinitionError, closest
from capset.evaluation.compare.comparison import diff_sides
from capset.evaluation.compare.differences import Diff
from capset.evaluation.compare.report import Line, Sign, report_lines
from capset.evaluation.compare.sides import Side, side_of, stored_side
from capset.evaluation.snapshot.capture import capture
from capset.evaluation.snapshot.envelope import read_envelope
from capset.fingerprint.links import CapabilityLink
from capset.kernel.registry import Registry
from capset.wire.diffs import diff_shape
from capset_cli.common.configuration import load_configuration
from capset_cli.common.exits import Exit, guarded, ignoring_closed_pipe
from capset_cli.common.options import AsJson, Attribute, Db, Env, Grant, Who
from capset_cli.common.output import cell, err, out, print_json
from capset_cli.common.settings import Settings, load_settings, require_db
from capset_cli.common.targets import open_store
from capset_cli.common.upstream import Upstream
from capset_connect import plain_files
from capset_connect.config_file.shapes import ConfigurationShape

_STYLES: Final[dict[Sign, str]] = {"+": "green", "-": "red", "~": "yellow", "=": "dim", "#": "bold"}

Org = Annotated[str | None, typer.Option("--org", help="The organisation that ids in the database belong to, if any.")]

MAX_BYTES: Final = 64 * 1024 * 1024
_KINDS: Final = "an envelope (capset fingerprint AGENT --envelope FILE), or a link (its model_dump_json())"
_VERSION_MEMBERS: Final = frozenset({"runtime", "runtime_hash"})
"""The members of which an envelope or a link has one."""


@guarded
def diff_command(
    before: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="A configuration file; a file with an envelope or a link, or - for stdin; or the id of a stored one.",
        ),
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="What to compare it with, in any of these forms.")],
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 3 if they differ.")] = False,
    principal: Who = None,
    grant: Grant = None,
    attribute: Attribute = None,
    env: Env = None,
    org: Org = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Compare two versions of an agent: which hashes changed, and why.

    Shows the tools that were added (+), removed (-) or changed (~), field by field; the policies that decide
    differently; and the changes in the prompt and the definition. Ids are looked up in the database. The agent of a
    configuration file is evaluated for the principal of the options; exits with 1 if a policy of it fails.
    """
    if before == after == "-":
        raise DefinitionError("stdin can be read once: give a file or an id for A or for B")
    sides = resolve_side(before), resolve_side(after)
    options = {"--principal": principal, "--grant": grant, "--attribute": attribute, "--env": env}
    if not any(isinstance(side, Path) for side in sides):
        _refuse_options(options)
    settings = load_settings(db=db, principal=principal, grant=grant, attribute=attribute, env=env)
    diff, is_failed = asyncio.run(_compare(sides, org, settings))
    with ignoring_closed_pipe():
        if as_json:
            print_json(diff_shape(diff).plain())
        else:
            print_report(report_lines(diff, width=out().width))
    if is_failed:
        return Exit.FAILED
    return Exit.DIFFERENT if exit_code and diff.differs else Exit.DONE


def _refuse_options(options: Mapping[str, object]) -> None:
    """Raise ``DefinitionError`` if an option is set that only configuration files need."""
    if used := [name for name, value in options.items() if value is not None]:
        raise DefinitionError(
            f"{', '.join(used)}: stored versions have their own principal and env",
            hint="these options are for configuration files, which are evaluated now",
        )


async def _compare(
    references: tuple[Side | UUID | Path, Side | UUID | Path], org: str | None, settings: Settings
) -> tuple[Diff, bool]:
    """Return the differences, and whether a policy of a configuration file failed."""
    sides: list[Side | UUID] = []
    is_failed = False
    for reference in references:
        if not isinstance(reference, Path):
            sides.append(reference)
            continue
        agent = load_configuration(reference, Registry.installed(), Upstream(settings.db)).agent
        captured = await capture(compose(agent), principal=settings.principal, env=settings.env)
        is_failed |= bool(captured.snapshot.failures)
        sides.append(side_of(captured.envelope))
    ours, theirs = sides
    if isinstance(ours, Side) and isinstance(theirs, Side):
        return diff_sides(ours, theirs), is_failed
    async with open_store(require_db(settings.db)) as store:
        ours, theirs = [
            side if isinstance(side, Side) else await stored_side(store.lineage, org, str(side)) for side in sides
        ]
        return diff_sides(ours, theirs), is_failed


def print_report(lines: Iterable[Line]) -> None:
    """Print a report in colours, with a note on stderr if values in it are shortened."""
    console = out()
    is_cut = False
    for line in lines:
        style = _STYLES.get(line.sign)
        text = cell(str(line))
        console.print(f"[{style}]{text}[/]" if style else text, soft_wrap=True)
        is_cut |= line.is_truncated
    if is_cut:
        err().print("[dim]values with … are shortened: --json has them in full[/]")


def resolve_side(reference: str) -> Side | UUID | Path:
    """Return the version in a file, or on stdin for ``-``; the path of a configuration file; or the id of a stored one.

    Raises ``DefinitionError`` for any other name, and for a file that cannot be read or is none of these.
    """
    path = Path(reference)
    if reference == "-":
        return _parse_side("stdin", sys.stdin.buffer.read(MAX_BYTES + 1))
    try:
        if path.exists():
            with path.open("rb") as file:
                text = file.read(MAX_BYTES + 1)
            return path if _is_configuration(path, text) else _parse_side(reference, text)
    except OSError as error:
        raise DefinitionError(f"{reference}: cannot be read: {error.strerror}") from None
    try:
        return UUID(reference)
    except ValueError:
        raise _unknown_side_error(path) from None


def _is_configuration(path: Path, text: bytes) -> bool:
    """Return whether the text of a file is that of a configuration file; in JSON, it might also be a stored version."""
    suffix = path.suffix.lower()
    if suffix != ".json":
        return suffix in plain_files.ENDINGS
    try:
        data: Any = from_json(text[: plain_files.MAX_BYTES])
    except ValueError:
        return False
    if not isinstance(data, dict):
        return False
    members = cast("dict[str, Any]", data).keys()
    return not members & _VERSION_MEMBERS and bool(members & ConfigurationShape.model_fields)


def _parse_side(source: str, text: bytes) -> Side:
    if len(text) > MAX_BYTES:
        raise DefinitionError(f"{source}: at most {MAX_BYTES} bytes are read")
    try:
        data: Any = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise DefinitionError(f"{source} is not JSON: {error}", hint=f"it must contain {_KINDS}") from None
    if not isinstance(data, dict) or not _VERSION_MEMBERS & cast("dict[str, Any]", data).keys():
        raise DefinitionError(f"{source} contains no link or envelope", hint=f"it must contain {_KINDS}")
    try:
        if "runtime" in data:
            return side_of(read_envelope(text))
        return Side(CapabilityLink.model_validate_json(text))
    except DefinitionError as error:
        raise DefinitionError(f"{source}: {error.message}", hint=error.hint) from None
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()[:5]
        )
        raise DefinitionError(f"{source} is not a valid link: {problems}", hint=f"it must contain {_KINDS}") from None


def _unknown_side_error(path: Path) -> DefinitionError:
    try:
        meant = closest(path.name, (sibling.name for sibling in path.parent.iterdir()))
    except OSError:
        meant = None
    suggestion = f"; did you mean {str(path.with_name(meant))!r}?" if meant else ""
    return DefinitionError(
        f"there is no file {str(path)!r}{suggestion}", hint="or give the id of a stored link or envelope"
    )
