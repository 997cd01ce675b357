"""GuardBench's adapter for capset: its scripted agent plays each case through a gateway, on its own scores."""

# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false
# guardbench is in an environment of its own, which pyright does not see.

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from guardbench.benchmark.adapters import AdapterContext
from guardbench.benchmark.result_normalizer import claim_result
from guardbench.benchmark.runner import CallVerdict, ResponseInspection, ScenarioRun, ScenarioRunner
from guardbench.domain.enums import EventType, FindingCategory, PolicyDecisionType, Severity
from guardbench.domain.schemas import AdapterResult, Finding
from guardbench.domain.testcase import TestCaseSpec
from guardbench.mcp_lab.base import LedgerKind

from lab.guardbench.lab.fixture_server import FixtureServer
from lab.guardbench.lab.gateway import META, Gateway, GatewayConnection, GatewayResult
from lab.guardbench.lab.operators import Operator

SOURCE = "capset"


class GatewayRunner(ScenarioRunner):
    """GuardBench's runner, whose agent talks to the gateway. Its scores stay as they are."""

    def __init__(self, run: ScenarioRun, guard: CapsetGuard, gateway: Gateway, server: FixtureServer) -> None:
        super().__init__(run, guard)
        self._gateway = gateway
        self._server = server

    async def _connect(self) -> None:
        await self._stack.aclose()
        self._server.restart()  # GuardBench's own connection shakes hands anew here
        self._stack = AsyncExitStack()
        connection = GatewayConnection(self._gateway, self._run.fixture)
        self._conn = await self._stack.enter_async_context(connection)  # type: ignore[assignment]

    def _score_execution(self, tool_name: str, ledger_before: int) -> None:
        run = self._run
        new = run.fixture.ledger.entries[ledger_before:]
        if any(entry.kind is LedgerKind.TOOL_EXECUTED and entry.tool == tool_name for entry in new):
            super()._score_execution(tool_name, ledger_before)
            return
        # A guard is asked before the runner calls; a gateway answers the call itself, and the ledger says which it was.
        run.executed -= 1
        run.blocked += 1
        run.emit(EventType.TOOL_CALL_BLOCKED, SOURCE, {"reason": "the server was not called"}, tool_name=tool_name)


class CapsetGuard:
    """Tells GuardBench what capset has said; it decides nothing itself."""

    def __init__(self, name: str, gateway: Gateway) -> None:
        self.name = name
        self._gateway = gateway
        self.said: list[dict[str, str]] = []
        """What capset said that is no plain result: the tool, the rule and the text of each."""

    def on_tools_listed(self, run: ScenarioRun, tools, identity, *, pin_baseline: bool) -> frozenset[str]:
        """Report what ``capset mcp list`` shows; what the gateway does not list was withheld already."""
        offered = {definition.name for definition in run.fixture.tool_definitions()}
        run.withheld += len(offered - {tool.name for tool in tools})
        for standing in self._gateway.standings():
            for problem in standing["problems"]:
                self._find(run, standing["tool"], "problem", problem, FindingCategory.TOOL_POISONING, Severity.HIGH)
            if not pin_baseline and standing["state"] in ("changed", "gone"):
                hashes = {"old_hash": standing["approved"]["hash"], "new_hash": standing["hash"]}
                description = f"{standing['state']} since it was approved"
                drift = FindingCategory.TOOL_DEFINITION_DRIFT
                self._find(
                    run, standing["tool"], "pin", description, drift, Severity.HIGH, hashes, EventType.DRIFT_DETECTED
                )
        return frozenset()

    def before_call(self, run: ScenarioRun, tool_name: str, arguments: dict[str, Any]) -> CallVerdict:
        """Leave it to the gateway."""
        return CallVerdict()

    def inspect_response(self, run: ScenarioRun, tool_name: str, result: GatewayResult) -> ResponseInspection:
        """Report a refusal, an approval request and a result that was cut; the model reads what it reads."""
        if error := result.error:
            self._report(run, tool_name, error)
        elif f"{META}file" in result.meta:
            self._find(
                run,
                tool_name,
                "result_bytes",
                "the result was cut",
                FindingCategory.OVERSIZED_RESPONSE,
                Severity.MEDIUM,
                event=EventType.RESPONSE_TRUNCATED,
            )
        return ResponseInspection()

    def _report(self, run: ScenarioRun, tool: str, error: Mapping[str, Any]) -> None:
        """Report a refusal, in the category that GuardBench gives its own control's."""
        message, decision = str(error["message"]), PolicyDecisionType.DENY
        category, severity = FindingCategory.POLICY_VIOLATION, Severity.HIGH
        if error["code"] == "approval_required":
            decision = PolicyDecisionType.REQUIRE_APPROVAL
            category, severity = FindingCategory.EXCESSIVE_PERMISSION, Severity.MEDIUM
            run.approvals.request(run.trace.trace_id, run.server_name, tool, {"approval": error["approval"]}, message)
            run.approvals_requested += 1
        else:
            run.denials += 1
        if "has changed what it says" in message:
            category = FindingCategory.TOOL_DEFINITION_DRIFT
        self._find(run, tool, error["code"], message, category, severity, dict(error), decision=decision)

    def _find(
        self,
        run: ScenarioRun,
        tool: str,
        rule: str,
        message: str,
        category: FindingCategory,
        severity: Severity,
        evidence: Mapping[str, Any] | None = None,
        event: EventType = EventType.POLICY_DECISION,
        decision: PolicyDecisionType | None = None,
    ) -> None:
        self.said.append({"tool": tool, "rule": rule, "text": message})
        emitted = run.emit(event, self.name, {"rule": rule, "reason": message}, tool_name=tool, decision=decision)
        run.findings.append(
            Finding(
                rule_id=rule,
                title=message,
                category=category,
                severity=severity,
                confidence=1.0,
                location=f"tools/call {tool}",
                matched_evidence=message,
                server_name=run.server_name,
                tool_name=tool,
                evidence=dict(evidence or {}),
                evidence_event_ids=[str(emitted.id)],
                detected_by=self.name,
            )
        )


class CapsetAdapter:
    """capset's gateway as a control, as one operator declares it."""

    version = "1"
    limitations = ("Descriptions and results are not read for their meaning.",)

    def __init__(self, operator: Operator, capset: Path, reports: dict[str, list[dict[str, str]]]) -> None:
        """Make the control; what capset says in each case goes into ``reports``, by the id of the case."""
        self.name = operator.name
        self._operator = operator
        self._capset = capset
        self._said = reports
        self._stack = AsyncExitStack()

    async def prepare(self, context: AdapterContext) -> None:
        """Serve the fixture."""
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="capset-guardbench-")))
        self._server = self._stack.enter_context(FixtureServer(context.fixture))

    async def execute(self, test_case: TestCaseSpec, context: AdapterContext) -> AdapterResult:
        """Declare, approve and serve as an operator would, and play the case."""
        started = context.clock.now()
        gateway = Gateway(self._capset, self._folder, self._server.command)
        self._stack.callback(gateway.stop)
        governance = self._operator.governance(context.max_response_bytes)
        gateway.declare({}, governance)
        if self._operator.asks:
            gateway.declare(self._operator.rules(gateway.offers()), governance)
        if any(step.pin_baseline for step in test_case.scenario):
            gateway.approve()
        gateway.start()
        guard = CapsetGuard(self.name, gateway)
        context.run = run = ScenarioRun(
            fixture=context.fixture,
            recorder=context.recorder,
            tracker=context.tracker,
            approvals=context.approvals,
            policy_config=context.policy_config,
            mode=context.mode,
            trace=context.trace,
            max_response_bytes=context.max_response_bytes,
        )
        context.truth = await GatewayRunner(run, guard, gateway, self._server).execute(test_case)
        self._said[test_case.id] = guard.said
        return claim_result(
            adapter_name=self.name,
            adapter_version=self.version,
            spec=test_case,
            run=run,
            started_at=started,
            completed_at=context.clock.now(),
            limitations=list(self.limitations),
        )

    async def cleanup(self, context: AdapterContext) -> None:
        """End the gateway and the server."""
        await self._stack.aclose()
