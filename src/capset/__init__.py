"""capset: the capability layer for AI agents. What an agent can do, may do, did, and which exact version that was."""

from __future__ import annotations

from capset.composition.compose import Composition, compose
from capset.definitions.agents import Agent
from capset.definitions.capabilities import Capability
from capset.definitions.contexts import Context
from capset.definitions.messages import Json, Message, Meta, Progress, Reply
from capset.definitions.policies import Decision, Policy, Request, allow, deny, policy
from capset.definitions.principals import Principal
from capset.definitions.records import Record
from capset.definitions.tools import Tool, tool
from capset.errors import CapsetError, DefinitionError, ToolError
from capset.evaluation.snapshot import Snapshot, Verdict, evaluate

__all__ = [
    "Agent",
    "Capability",
    "CapsetError",
    "Composition",
    "Context",
    "Decision",
    "DefinitionError",
    "Json",
    "Message",
    "Meta",
    "Policy",
    "Principal",
    "Progress",
    "Record",
    "Reply",
    "Request",
    "Snapshot",
    "Tool",
    "ToolError",
    "Verdict",
    "allow",
    "compose",
    "deny",
    "evaluate",
    "policy",
    "tool",
]
