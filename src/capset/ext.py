"""The ports that built-ins and third parties may use beyond the public names of ``capset``."""

from __future__ import annotations

from capset.definitions.data import Document, DocumentsHandle, ResourceHandle, StateHandle
from capset.definitions.files import Files, FileStat, normalise_path
from capset.definitions.resources import Documents
from capset.definitions.secrets import Secrets
from capset.errors import FileError, StateError
from capset.kernel.duplex import Duplex
from capset.kernel.generating import GeneratorRunner, ModelStep, Turn
from capset.kernel.hosting.events import ContextMerged, SessionTurn, TurnEnded, TurnFailed, TurnStarted
from capset.kernel.hosting.hooks import SessionHooks
from capset.kernel.hosting.host import SessionHost
from capset.kernel.hosting.session import HostedSession
from capset.kernel.introspection import ToolView, tools_of
from capset.kernel.serving import Serving

__all__ = [
    "ContextMerged",
    "Document",
    "Documents",
    "DocumentsHandle",
    "Duplex",
    "FileError",
    "FileStat",
    "Files",
    "GeneratorRunner",
    "HostedSession",
    "ModelStep",
    "ResourceHandle",
    "Secrets",
    "Serving",
    "SessionHooks",
    "SessionHost",
    "SessionTurn",
    "StateError",
    "StateHandle",
    "ToolView",
    "Turn",
    "TurnEnded",
    "TurnFailed",
    "TurnStarted",
    "normalise_path",
    "tools_of",
]
