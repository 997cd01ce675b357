"""``capset approvals``: listing and deciding the calls that need an approval (spec 4, G16–G18)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import typer

from capset.definitions.governance.approvals import Answer, ApprovalScope, ApprovalStatus
from capset.wire.approvals import ApprovalShape
from capset_cli.administration import administer
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Attribute, Db, Grant, parse_choice, read_object
from capset_cli.common.output import cell, err, out, print_json, print_page
from capset_cli.common.remote import Url

if TYPE_CHECKING:
    from capset_cli.administration import Admin

Id = Annotated[str, typer.Argument(metavar="ID", help="The id of the request, as capset approvals list shows it.")]
Org = Annotated[str | None, typer.Option("--org", help="The organisation that the requests belong to.")]
Decider = Annotated[str | None, typer.Option("--principal", help="Who decides (or CAPSET_PRINCIPAL).")]
Note = Annotated[str | None, typer.Option(help="A note for the caller.")]
_LINES: Final = ("id", "status", "scope", "tool", "arguments", "files", "modified", "reason", "principal")
_MORE: Final = (
    "on_behalf_of",
    "tool_hash",
    "code_hash",
    "code",
    "agent",
    "session",
    "created_at",
    "expires_at",
    "decided_by",
    "decided_at",
    "note",
    "needs",
    "approvals",
    "round",
    "escalates_at",
    "escalated_at",
    "decidable",
    "refusal",
)


@guarded
def list_command(
    status: Annotated[str | None, typer.Option(help="Only requests with this status, such as pending.")] = None,
    session: Annotated[str | None, typer.Option(help="Only requests of this session.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="The maximum number of requests.")] = 50,
    before: Annotated[str | None, typer.Option(help="Only requests before the one with this id.")] = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """List approval requests, newest first."""
    approval_status: ApprovalStatus | None = parse_choice("status", status, get_args(ApprovalStatus))
    page = administer(
        url,
        lambda admin: admin.approvals.list(status=approval_status, session=session, limit=limit, cursor=before),
        db=db,
        org=org,
    )
    columns = ("ID", "STATUS", "PRINCIPAL", "TOOL", "ARGUMENTS", "WHY")
    print_page(
        page,
        columns,
        map(_row, page.items),
        folds=("PRINCIPAL", "ARGUMENTS", "WHY"),
        as_json=as_json,
        empty="no approval requests match: calls of tools with `approval: ask` make them",
    )
    return Exit.DONE


@guarded
def show_command(
    id: Id,
    unmasked: Annotated[
        bool,
        typer.Option("--unmasked", help="Mask arguments only where the tool's schema says so; this is recorded."),
    ] = False,
    principal: Annotated[str | None, typer.Option("--principal", help="Who reads the unmasked arguments.")] = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Show a request and its outcome."""

    async def read(admin: Admin) -> ApprovalShape:
        request = await admin.approvals.get(id)
        if not unmasked:
            return request
        view = await admin.approvals.arguments(id)
        return request.model_copy(update={"arguments": view.arguments, "modified": view.modified, "masked": False})

    return _show(administer(url, read, db=db, org=org, principal=principal), as_json=as_json)


@guarded
def approve_command(
    id: Id,
    for_session: Annotated[
        bool, typer.Option("--session", help="Approve every call of this tool with these arguments in the session.")
    ] = False,
    arguments: Annotated[
        str | None,
        typer.Option("--args", metavar="JSON", help="A complete set of arguments that replaces the requested one."),
    ] = None,
    of_round: Annotated[
        int | None,
        typer.Option("--round", min=0, help="Approve the arguments as another approver changed them in this round."),
    ] = None,
    note: Note = None,
    principal: Decider = None,
    grant: Grant = None,
    attribute: Attribute = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Approve a call. Exits with 3 if the request is the principal's own, or rules reserve it for other approvers."""
    new_arguments = None if arguments is None else read_object("--args", arguments)
    scope: ApprovalScope = "session" if for_session else "once"
    answer = Answer(approved=True, scope=scope, arguments=new_arguments, note=note, round=of_round)
    return _decide(
        id, answer, url, as_json=as_json, db=db, org=org, principal=principal, grant=grant, attribute=attribute
    )


@guarded
def reject_command(
    id: Id,
    note: Note = None,
    principal: Decider = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Reject a call. Its caller can read the note."""
    answer = Answer(approved=False, note=note)
    return _decide(id, answer, url, as_json=as_json, db=db, org=org, principal=principal)


def _decide(
    id: str,
    answer: Answer,
    url: str | None,
    *,
    as_json: bool,
    **local: Any,  # options of administer
) -> Exit:
    async def decide(admin: Admin) -> ApprovalShape:
        if not answer.approved:
            return await admin.approvals.reject(id, note=answer.note)
        return await admin.approvals.approve(
            id, scope=answer.scope, arguments=answer.arguments, round=answer.round, note=answer.note
        )

    return _show(administer(url, decide, **local), as_json=as_json)


def _show(approval: ApprovalShape, *, as_json: bool) -> Exit:
    if as_json:
        print_json(approval.plain())
        return Exit.DONE
    fields = approval.plain()
    if approval.code is not None:
        fields["code"] = " ".join(filter(None, (approval.code.name, approval.code.version)))
    if approval.needs is not None:
        fields["needs"] = approval.needs.text
    decisions: list[str] = []
    for decision in approval.approvals:
        on_behalf_of = f" for {decision.on_behalf_of}" if decision.on_behalf_of else ""
        note = f" {decision.note}" if decision.note else ""
        decisions.append(f"{decision.by}{on_behalf_of} at {decision.at}{note}")
    fields["approvals"] = decisions
    fields["files"] = [
        f"{file.path or file.argument}, {file.size_bytes} bytes, SHA-256 {file.sha256}" for file in approval.files
    ]
    if approval.masked:
        err().print("[yellow]a part of the arguments is masked here:[/] --unmasked shows it")
    if approval.status != "pending":
        fields.pop("refusal", None)  # it would only say that the request is decided
    for name in (*_LINES, *_MORE):
        if name in fields and fields[name] not in ([], 0):
            value = fields[name]
            out().print(f"{name:<13} {cell(value if isinstance(value, str) else _json(value))}", soft_wrap=True)
    return Exit.DONE


def _row(approval: ApprovalShape) -> list[str]:
    needed = 1 if approval.needs is None else approval.needs.approvals
    status = f"{approval.status} {len(approval.approvals)}/{needed}" if needed > 1 else approval.status
    texts = (
        approval.id,
        status,
        approval.principal,
        approval.tool,
        _json(approval.arguments),
        approval.note or approval.reason,
    )
    return list(map(cell, texts))


def _json(value: Any) -> str:  # plain JSON data
    return json.dumps(value, ensure_ascii=False)
