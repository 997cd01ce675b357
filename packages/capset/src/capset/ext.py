"""Interfaces for built-ins and third parties, in addition to the public names of ``capset``."""

from __future__ import annotations

from capset.composition.helper_types import helper_types
from capset.definitions.calls.clients import CallClient, ClientAnswer, ClientQuestion
from capset.definitions.calls.contents import Audio, Content, Embedded, Image, Link, Text
from capset.definitions.calls.contexts import Document, DocumentsHandle, ResourceHandle, StateHandle
from capset.definitions.calls.files import Files, FileStat, normalise_path
from capset.definitions.governance.allowances import Allowance
from capset.definitions.governance.approvals import Answer, ApprovalRow, Approver
from capset.definitions.governance.approvers import ApproverRule
from capset.definitions.governance.limits import Budget, Limit
from capset.definitions.governance.settings import Governance, Roles
from capset.definitions.governance.usage import AgentUsage, UsageLimit
from capset.definitions.resources import Documents
from capset.definitions.secrets import Secrets
from capset.definitions.tools.mcp_offers import McpPrompt, McpResource
from capset.definitions.tools.retries import Retry
from capset.definitions.tools.schema_tools import schema_tool
from capset.errors import (
    ClientCapabilityMissing,
    ClientInputRequired,
    FileError,
    StateError,
    TransientError,
    VersionMismatch,
)
from capset.extras import install_command
from capset.fingerprint.checkpoints import Checkpoint, CheckpointKey, PublicKey
from capset.kernel.blocks.generation import GeneratorRunner, ModelStep, Turn
from capset.kernel.call.concurrency import in_thread, slot
from capset.kernel.call.invocation import Observer
from capset.kernel.governance.checkpoints import Checkpoints
from capset.kernel.hosting.events import ContextMerged, SessionTurn, TurnEnded, TurnFailed, TurnStarted
from capset.kernel.hosting.hooks import SessionHooks
from capset.kernel.hosting.host import SessionHost
from capset.kernel.hosting.session import HostedSession
from capset.kernel.introspection import ToolView, tools_of
from capset.kernel.streams.dispatcher import Dispatcher
from capset.kernel.streams.duplex import Duplex
from capset.net.addresses import AllowedHosts, Resolver, system_resolver
from capset.net.client import HttpClient
from capset.net.media import all_codecs, codec_named, codec_of, decode, describe_media_type, is_text, media_type_of
from capset.net.response import HttpResponse
from capset.schemas.schema import digested, session_file

__all__ = [
    "AgentUsage",
    "Allowance",
    "AllowedHosts",
    "Answer",
    "ApprovalRow",
    "Approver",
    "ApproverRule",
    "Audio",
    "Budget",
    "CallClient",
    "Checkpoint",
    "CheckpointKey",
    "Checkpoints",
    "ClientAnswer",
    "ClientCapabilityMissing",
    "ClientInputRequired",
    "ClientQuestion",
    "Content",
    "ContextMerged",
    "Dispatcher",
    "Document",
    "Documents",
    "DocumentsHandle",
    "Duplex",
    "Embedded",
    "FileError",
    "FileStat",
    "Files",
    "GeneratorRunner",
    "Governance",
    "HostedSession",
    "HttpClient",
    "HttpResponse",
    "Image",
    "Limit",
    "Link",
    "McpPrompt",
    "McpResource",
    "ModelStep",
    "Observer",
    "PublicKey",
    "Resolver",
    "ResourceHandle",
    "Retry",
    "Roles",
    "Secrets",
    "SessionHooks",
    "SessionHost",
    "SessionTurn",
    "StateError",
    "StateHandle",
    "Text",
    "ToolView",
    "TransientError",
    "Turn",
    "TurnEnded",
    "TurnFailed",
    "TurnStarted",
    "UsageLimit",
    "VersionMismatch",
    "all_codecs",
    "codec_named",
    "codec_of",
    "decode",
    "describe_media_type",
    "digested",
    "helper_types",
    "in_thread",
    "install_command",
    "is_text",
    "media_type_of",
    "normalise_path",
    "schema_tool",
    "session_file",
    "slot",
    "system_resolver",
    "tools_of",
]
