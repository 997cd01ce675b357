"""Every operation of the REST API and of MCP, with what belongs to somebody put in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import httpx2

MCP_HEADERS: Final = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
_INITIALIZE: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
_LIST: Final = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}


@dataclass(frozen=True)
class Belongings:
    """What somebody has: an agent, a session of it with ``/secret.txt``, a record of a call, a link with its envelope.

    ``approval`` and ``refusal`` are requests, one to approve and one to reject; ``hash`` one that only the agent has.
    """

    agent: str
    session: str
    record: str
    link: str = "nowhere"
    envelope: str = "nowhere"
    approval: str = "nowhere"
    refusal: str = "nowhere"
    hash: str = "0" * 64
    delivery: str = "nowhere"
    person: str = "nowhere"
    run: str = "nowhere"
    schedule: str = "nowhere"
    credential: str = "nowhere"
    delegation: str = "nowhere"


ADMINISTERED = frozenset(
    {
        *("list_agent_mcp_servers", "get_agent_mcp_server", "approve_agent_mcp_tools", "withdraw_agent_mcp_tools"),
        *("list_keys", "create_key", "get_key", "revoke_key", "list_principals", "list_orgs"),
        *("list_people", "add_person", "remove_person", "retry_delivery", "export_chain"),
        *("list_tool_sources", "get_tool_source", "approve_source_tools", "withdraw_source_tools"),
        *("list_credentials", "revoke_credential"),
    }
)
"""The operations of administrators alone: others are told that, whatever it is about."""


@dataclass(frozen=True)
class Step:
    """One request. ``of`` says what it is about: nothing of anybody's, an ``agent``, a ``session`` and so on.

    ``link``, ``envelope`` and ``transitions`` are of a session, and whoever may audit sees them too.
    """

    name: str
    method: str
    path: str
    of: str
    options: dict[str, Any]

    async def take(self, client: httpx2.AsyncClient) -> httpx2.Response:
        """Send it."""
        return await client.request(self.method, self.path, **self.options)


def steps(document: dict[str, Any], belongings: Belongings) -> list[Step]:
    """Return a request for every operation of the document, as its owner could make it; and for MCP.

    An operation that this does not know fails: whoever adds one says here whose it is.
    """
    bodies: dict[str, dict[str, Any]] = {
        "create_agent": {"json": {"name": "mine", "capabilities": ["kit"]}},
        "change_agent": {"json": {"description": "changed"}},
        "preview_agent": {"json": {"name": "mine", "capabilities": ["kit"]}},
        "preview_agent_change": {"json": {"description": "changed"}},
        "rollback_agent": {"json": {"version": 1}},
        "diff_agent_versions": {"params": {"before": 1}},
        "approve_agent_mcp_tools": {"json": {"tools": {"look": "0" * 64}}},
        "withdraw_agent_mcp_tools": {"json": {"tools": ["look"]}},
        "approve_source_tools": {"json": {"tools": {"look": "0" * 64}}},
        "withdraw_source_tools": {"json": {"tools": ["look"]}},
        "create_session": {"json": {"agent_id": belongings.agent}},
        "change_session": {"json": {"agent_version": None}},
        "send_message": {"json": {"content": "hello"}},
        "list_events": {"params": {"follow": False}},
        "list_messages": {},
        "list_run_events": {"params": {"follow": False}},
        "fork_session": {"json": {}},
        "rewind_session": {"json": {"turn": "turn-1"}},
        "create_run": {"json": {"session_id": belongings.session, "content": "hello"}},
        "create_schedule": {"json": {"cron": "0 9 * * *", "session_id": belongings.session, "content": "hello"}},
        "call_tool": {"json": {"tool": "echo", "arguments": {"text": "hi"}}},
        "list_approvals": {"params": {"session": belongings.session}},
        "approve": {"json": {"scope": "session"}},
        "reject": {"json": {}},
        "decide_approvals": {"json": {"answer": "reject", "requests": [{"id": belongings.refusal}]}},
        "create_key": {"json": {"name": "mine", "principal": "mine"}},
        "complete_authorization": {"json": {"state": "unknown", "code": "unknown"}},
        "create_delegation": {"json": {"delegate": "agent:helper"}},
        "enter_key": {"json": {"key": "key-of-the-caller"}},
        "add_person": {"json": {"team": "T1", "user": "U1", "principal": "bea"}},
        "check_config": {"json": {"content": "actions: []", "format": "yaml"}},
        "write_file": {"content": b"overwritten"},
        "record_link": {"json": {"session_id": belongings.session}},
        "list_links": {"params": {"session_id": belongings.session}},
        "diff_links": {"params": {"before": belongings.link, "after": belongings.envelope}},
    }
    subjects = {
        "create_agent": "",
        "list_agents": "",
        "get_agent": "agent",
        "change_agent": "agent",
        "archive_agent": "agent",
        "preview_agent": "",
        "preview_agent_change": "agent",
        "list_agent_versions": "agent",
        "get_agent_version": "agent",
        "rollback_agent": "agent",
        "diff_agent_versions": "agent",
        "list_agent_mcp_servers": "agent",
        "get_agent_mcp_server": "agent",
        "approve_agent_mcp_tools": "agent",
        "withdraw_agent_mcp_tools": "agent",
        "create_session": "agent",
        "list_sessions": "",
        "get_session": "session",
        "change_session": "session",
        "delete_session": "session",
        "get_state": "session",
        "send_message": "session",
        "list_events": "session",
        "list_messages": "session",
        "fork_session": "session",
        "rewind_session": "session",
        "cancel_turn": "session",
        "resume_turn": "session",
        "create_run": "session",
        "list_runs": "",
        "get_run": "run",
        "get_run_trace": "run",
        "list_run_events": "run",
        "cancel_run": "run",
        "create_schedule": "session",
        "list_schedules": "",
        "get_schedule": "schedule",
        "pause_schedule": "schedule",
        "resume_schedule": "schedule",
        "delete_schedule": "schedule",
        "get_snapshot": "session",
        "list_session_tools": "session",
        "call_tool": "session",
        "read_file": "session",
        "write_file": "session",
        "delete_file": "session",
        "list_transitions": "transitions",
        "list_tool_sources": "",
        "get_tool_source": "",
        "approve_source_tools": "",
        "withdraw_source_tools": "",
        "list_approvals": "",
        "summarize_approvals": "",
        "get_approval_conversation": "approval",
        "get_approval_arguments": "approval",
        "get_approval_file": "approval",
        "get_approval": "approval",
        "approve": "approval",
        "reject": "refusal",
        "decide_approvals": "",
        "list_deliveries": "",
        "get_delivery": "delivery",
        "retry_delivery": "delivery",
        "list_connections": "",
        "get_connection": "",
        "enter_key": "",
        "authorize_connection": "",
        "complete_authorization": "",
        "create_delegation": "",
        "list_delegations": "",
        "end_delegation": "delegation",
        "disconnect": "",
        "list_credentials": "",
        "revoke_credential": "credential",
        "list_people": "",
        "add_person": "",
        "remove_person": "person",
        "record_link": "session",
        "list_links": "",
        "diff_links": "link",
        "get_link": "link",
        "get_link_envelope": "link",
        "get_envelope": "envelope",
        "list_fingerprints": "",
        "get_fingerprint": "hash",
        "list_sightings": "hash",
        "diff_fingerprints": "hash",
        "list_records": "",
        "get_record": "record",
        "verify_records": "",
        "export_records": "",
        "summarize_records": "",
        "export_chain": "",
        "get_log_key": "",
        "get_usage": "",
        "get_model_usage": "",
        "whoami": "",
        "list_principals": "",
        "list_orgs": "",
        "list_keys": "",
        "create_key": "",
        "get_key": "",
        "revoke_key": "",
        "list_capabilities": "",
        "get_capability": "",
        "check_config": "",
        "healthz": "",
        "readyz": "",
        "metrics": "",
    }
    targets = {
        "": "kit",
        "agent": belongings.agent,
        "session": belongings.session,
        "transitions": belongings.session,
        "link": belongings.link,
        "envelope": belongings.envelope,
        "approval": belongings.approval,
        "refusal": belongings.refusal,
        "record": belongings.record,
        "hash": belongings.hash,
        "delivery": belongings.delivery,
        "person": belongings.person,
        "run": belongings.run,
        "schedule": belongings.schedule,
        "credential": belongings.credential,
        "delegation": belongings.delegation,
    }
    requests: list[Step] = []
    for template, operations in document["paths"].items():
        for method, operation in operations.items():
            name = operation["operationId"]
            of = subjects[name]
            target = targets[of]
            path = template.replace("{id}", target).replace("{path}", "secret.txt").replace("{hash}", target)
            path = path.replace("{other}", target)
            path = path.replace("{version}", "1").replace("{turn}", "turn-1").replace("{name}", "shelf")
            path = path.replace("{number}", "0")
            requests.append(Step(name, method.upper(), path, of, bodies.get(name, {})))
    assert len(requests) == len(subjects), "an operation has gone, or two share a name"
    last = (
        "end_delegation",
        "disconnect",
        "delete_schedule",
        "delete_file",
        "delete_session",
        "archive_agent",
    )  # what ends what the others are about
    requests.sort(key=lambda step: last.index(step.name) if step.name in last else -1)
    return [*_mcp(belongings), *requests]


def _mcp(belongings: Belongings) -> list[Step]:
    requests: list[Step] = []
    for of, path in (("agent", f"/mcp/agents/{belongings.agent}"), ("session", f"/mcp/sessions/{belongings.session}")):
        requests.extend(
            Step(f"mcp {message['method']}", "POST", path, of, {"json": message, "headers": MCP_HEADERS})
            for message in (_INITIALIZE, _LIST)
        )
        requests.append(Step("mcp GET", "GET", path, of, {"headers": MCP_HEADERS}))
        requests.append(Step("mcp DELETE", "DELETE", path, of, {"headers": MCP_HEADERS}))
    return requests
