"""The tools of the incident assistant, and its policy."""

from typing import Any

from capset import Decision, Request, allow, deny

INCIDENTS: list[dict[str, Any]] = [
    {"id": 40, "service": "mail", "severity": "low", "summary": "bounces", "open": False},
    {"id": 41, "service": "search", "severity": "high", "summary": "p99 latency 9 s", "open": True},
    {"id": 42, "service": "payments", "severity": "high", "summary": "5% of charges time out", "open": True},
]


def read_incidents(params: dict[str, Any]) -> list[dict[str, Any]]:
    return [incident for incident in INCIDENTS if incident["open"] or not params["open_only"]]


def restart(params: dict[str, Any]) -> dict[str, str]:
    return {"restarted": params["service"]}  # here your own systems are called


def never_payments(request: Request) -> Decision:
    if request.tool is None or request.tool.name != "restart_service":
        return allow()  # the policies of a file are asked about every tool, and before any call
    if request.arguments and request.arguments["service"].strip().lower() == "payments":
        return deny("payments is never restarted by an agent")
    return allow()
