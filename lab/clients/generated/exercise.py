"""What somebody does with the client that openapi-python-client generates; it ends with 0 if all of it works.

Arguments: the server's address, a key, an approver's key, and, while the store is locked, the id of a session. Without
that, the last line that is printed is such an id.
"""

from __future__ import annotations

import sys
from io import BytesIO

from capset_client import AuthenticatedClient, Client
from capset_client.api.agents import (
    change_agent,
    create_agent,
    diff_agent_versions,
    get_agent,
    list_agent_versions,
    list_agents,
    preview_agent,
)
from capset_client.api.approvals import approve, get_approval, list_approvals
from capset_client.api.audit import list_records
from capset_client.api.calls import call_tool
from capset_client.api.capabilities import get_capability, list_capabilities
from capset_client.api.configuration import check_config
from capset_client.api.files import delete_file, read_file, write_file
from capset_client.api.fingerprints import list_fingerprints
from capset_client.api.health import healthz, metrics, readyz
from capset_client.api.links import get_link_envelope, list_links, record_link
from capset_client.api.sessions import create_session, get_snapshot, get_state, list_sessions, list_transitions
from capset_client.api.turns import list_events, send_message
from capset_client.models import (
    AgentDetail,
    AgentDiffShape,
    AgentInput,
    AgentPageShape,
    AgentPatch,
    ApprovalPageShape,
    ApprovalShape,
    ApproveInput,
    CallInput,
    CallInputArguments,
    CallProblem,
    CallShape,
    CapabilityDetail,
    CapabilityEntry,
    CapabilityPageShape,
    ConfigCheckShape,
    ConfigInput,
    ConfigInputFormat,
    EnvelopeShape,
    HealthShape,
    InstalledShape,
    LinkInput,
    LinkPageShape,
    PreviewShape,
    Problem,
    ReadyShape,
    RecordPageShape,
    SessionInput,
    SessionPageShape,
    SessionShape,
    SnapshotShape,
    StateShape,
    StoredLinkShape,
    TransitionsShape,
    TurnInput,
    VersionPageShape,
    WrittenShape,
)
from capset_client.types import UNSET, File, Unset


def called(
    client: AuthenticatedClient, session: str, tool: str, approval: str | Unset = UNSET, **arguments: object
) -> tuple[int, CallShape | CallProblem | Problem | str | None]:
    """Call a tool, and return the status with the object that came."""
    body = CallInput(tool=tool, arguments=CallInputArguments.from_dict(arguments), approval=approval)
    answer = call_tool.sync_detailed(session, client=client, body=body)
    return answer.status_code, answer.parsed


def refused(
    expected: tuple[int, str], answer: tuple[int, CallShape | CallProblem | Problem | str | None]
) -> CallProblem:
    """Return the answer to a call that was refused in its session, after checking that it is this one."""
    status, problem = answer
    assert isinstance(problem, CallProblem), answer
    assert (status, problem.code) == expected, answer
    assert (problem.status, problem.error.code, problem.error.message) == (*expected, problem.detail)
    assert problem.record
    assert not problem.success
    return problem


def succeed(client: AuthenticatedClient, url: str) -> str:
    """Make an agent and a session of it, use everything that can be had of both, and return the session's id."""
    agent = create_agent.sync(client=client, body=AgentInput(name="helper", capabilities=["shop"]))
    assert isinstance(agent, AgentDetail), agent
    entry = CapabilityEntry(id="session_file_system")
    patched = change_agent.sync(agent.id, client=client, body=AgentPatch(capabilities=["shop", entry], model=None))
    assert isinstance(patched, AgentDetail), patched
    assert (patched.capabilities, patched.version) == (["shop", "session_file_system"], 2)
    session = create_session.sync(client=client, body=SessionInput(agent_id=agent.id))
    assert isinstance(session, SessionShape), session
    status, done = called(client, session.id, "add", a=2, b=3)
    assert isinstance(done, CallShape), done
    assert (status, done.success, done.data) == (200, True, 5)

    content = b'{"not": "a folder"}\0'
    written_file = write_file.sync(session.id, "a folder/ü.json", client=client, body=File(payload=BytesIO(content)))
    assert isinstance(written_file, WrittenShape), written_file
    read = read_file.sync(session.id, "a folder/ü.json", client=client)
    assert isinstance(read, File), read
    assert read.payload.read() == content
    assert delete_file.sync_detailed(session.id, "a folder/ü.json", client=client).status_code == 204

    link = record_link.sync(client=client, body=LinkInput(session_id=session.id))
    assert isinstance(link, StoredLinkShape), link
    config = ConfigInput(content="actions: []", format_=ConfigInputFormat.YAML)
    with Client(base_url=url) as anyone:
        health = healthz.sync(client=anyone), readyz.sync(client=anyone)
    answers: list[tuple[object, type[object]]] = [
        (health[0], HealthShape),
        (health[1], ReadyShape),
        (get_agent.sync(agent.id, client=client), AgentDetail),
        (list_agent_versions.sync(agent.id, client=client), VersionPageShape),
        (diff_agent_versions.sync(agent.id, client=client, before=1), AgentDiffShape),
        (preview_agent.sync(client=client, body=AgentInput(name="n", capabilities=["shop"])), PreviewShape),
        (get_snapshot.sync(session.id, client=client), SnapshotShape),
        (get_state.sync(session.id, client=client), StateShape),
        (list_transitions.sync(session.id, client=client), TransitionsShape),
        (list_events.sync(session.id, client=client, follow=False), str),
        (list_links.sync(client=client, session_id=session.id), LinkPageShape),
        (get_link_envelope.sync(link.id, client=client), EnvelopeShape),
        (list_capabilities.sync(client=client), CapabilityPageShape),
        (get_capability.sync("shop", client=client), CapabilityDetail),
        (list_fingerprints.sync(client=client), InstalledShape),
        (list_records.sync(client=client), RecordPageShape),
        (list_approvals.sync(client=client, session=session.id), ApprovalPageShape),
        (metrics.sync(client=client), str),
        (check_config.sync(client=client, body=config), ConfigCheckShape),
    ]
    for answer, shape in answers:
        assert isinstance(answer, shape), answer
    return session.id


def be_refused(client: AuthenticatedClient, approver: AuthenticatedClient, session: str, url: str) -> None:
    """Be refused in every way, before a call and in its session; and be let through by an approval."""
    refused((403, "permission_denied"), called(client, session, "unlock"))
    refused((404, "not_found"), called(client, session, "ad"))
    misfit = refused((422, "invalid_arguments"), called(client, session, "add", a=1, c=2))
    assert misfit.fields
    assert [field.path for field in misfit.fields] == ["b", "c"]
    status, rung = called(client, session, "ring")
    assert (status, type(rung)) == (200, CallShape)
    assert refused((429, "limit_exceeded"), called(client, session, "ring")).retry_after

    status, asking = called(client, session, "pay", to="bob")
    assert isinstance(asking, CallShape), asking
    assert status == 202
    assert isinstance(asking.approval, str)
    assert isinstance(get_approval.sync(asking.approval, client=approver), ApprovalShape)
    decided = approve.sync(asking.approval, client=approver, body=ApproveInput())
    assert isinstance(decided, ApprovalShape), decided
    refused((409, "approval_void"), called(client, session, "pay", asking.approval, to="eve"))
    status, paid = called(client, session, "pay", asking.approval, to="bob")
    assert isinstance(paid, CallShape), paid
    assert (status, paid.data) == (200, "bob has it")

    with AuthenticatedClient(base_url=url, token="capset_nobody") as nobody:
        problems = [
            (401, list_agents.sync(client=nobody)),
            (403, approve.sync(asking.approval, client=client, body=ApproveInput())),
            (404, called(client, "nowhere", "add")[1]),
            (409, change_agent.sync("clerk", client=client, body=AgentPatch(description="mine"))),
            (422, create_agent.sync(client=client, body=AgentInput(name="n", capabilities=["shopp"]))),
            (501, send_message.sync(session, client=client, body=TurnInput(content="hello"))),
        ]
    for status, problem in problems:
        assert isinstance(problem, Problem), problem
        assert problem.status == status, problem


def page_through(client: AuthenticatedClient) -> None:
    """Make five sessions of an agent in code, and read the list of them page by page; the agents too."""
    session_ids = list[str]()
    for _ in range(5):
        session = create_session.sync(client=client, body=SessionInput(agent_id="clerk"))
        assert isinstance(session, SessionShape), session
        session_ids.append(session.id)
    listed_ids, cursor, pages = list[str](), UNSET, 0
    while cursor is not None:
        page = list_sessions.sync(client=client, agent_id="clerk", limit=2, cursor=cursor)
        assert isinstance(page, SessionPageShape), page
        listed_ids += [listed_session.id for listed_session in page.items]
        cursor, pages = page.next_ or None, pages + 1
    assert (listed_ids, pages) == (session_ids[::-1], 3)
    agents = list_agents.sync(client=client, limit=1)
    assert isinstance(agents, AgentPageShape), agents
    assert agents.items[0].id == "clerk"
    assert agents.next_
    bad = list_sessions.sync(client=client, limit=0)
    assert isinstance(bad, Problem), bad
    assert bad.fields


def main(url: str, key: str, approver_key: str, session: str | None = None) -> None:
    """Do all of it."""
    with (
        AuthenticatedClient(base_url=url, token=key, raise_on_unexpected_status=True) as client,
        AuthenticatedClient(base_url=url, token=approver_key, raise_on_unexpected_status=True) as approver,
    ):
        if session is not None:
            locked = refused((503, "store_busy"), called(client, session, "note", text="x"))
            assert locked.retryable
            return
        session = succeed(client, url)
        be_refused(client, approver, session, url)
        page_through(client)
        print(session)


if __name__ == "__main__":
    main(*sys.argv[1:])
