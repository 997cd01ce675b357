"""The public names of ``capset``."""

from __future__ import annotations

from capset.composition.compose import Composition, compose
from capset.definitions.agents import Agent
from capset.definitions.calls.contexts import Context
from capset.definitions.calls.messages import Json, Message, Meta, Progress, Reply
from capset.definitions.calls.records import Record
from capset.definitions.capabilities import Capability
from capset.definitions.governance.hooks import Hooks
from capset.definitions.governance.policies import Decision, Policy, Request, allow, ask, deny, policy
from capset.definitions.model_context import ContextMessage
from capset.definitions.parametrization import parameterised
from capset.definitions.parts import Preset
from capset.definitions.principals import Principal
from capset.definitions.references import CapabilityRef
from capset.definitions.resources import Resource
from capset.definitions.tools.definition import Tool, tool
from capset.definitions.tools.processors import Emit, handles, yields
from capset.definitions.tools.toolkits import Toolkit, ToolkitContext, dynamic_toolkit
from capset.errors import CapsetError, DefinitionError, ToolError
from capset.evaluation.evaluate import evaluate
from capset.evaluation.snapshot.snapshot import Snapshot, Verdict
from capset.kernel.call.session import Session
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.kernel.results import Result
from capset.kernel.streams.messages import Messages

__all__ = [
    "Agent",
    "Capability",
    "CapabilityRef",
    "CapsetError",
    "Composition",
    "Context",
    "ContextMessage",
    "Decision",
    "DefinitionError",
    "Emit",
    "Hooks",
    "Json",
    "Kernel",
    "Message",
    "Messages",
    "Meta",
    "Policy",
    "Preset",
    "Principal",
    "Progress",
    "Record",
    "Registry",
    "Reply",
    "Request",
    "Resource",
    "Result",
    "Session",
    "Snapshot",
    "Tool",
    "ToolError",
    "Toolkit",
    "ToolkitContext",
    "Verdict",
    "allow",
    "ask",
    "compose",
    "deny",
    "dynamic_toolkit",
    "evaluate",
    "handles",
    "parameterised",
    "policy",
    "tool",
    "yields",
]
