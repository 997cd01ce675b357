"""The REST API of a server, typed and async: ``async with Client(url, key=key) as client: …`` (extra ``client``)."""

from __future__ import annotations

from capset.extras import install_command

try:
    import httpx2 as _httpx2  # noqa: F401 # pyright: ignore[reportUnusedImport]
except ModuleNotFoundError as missing:
    if missing.name != "httpx2":
        raise
    raise ModuleNotFoundError(f"capset.client needs httpx2: {install_command('client')}", name=missing.name) from None

from capset.client.client import Client
from capset.client.events import CallEvents
from capset.client.failures import data_of, error_of
from capset.client.files import FileContent
from capset.wire.agents import AgentInput, CapabilityEntry
from capset.wire.operations import KeyInput

__all__ = ["AgentInput", "CallEvents", "CapabilityEntry", "Client", "FileContent", "KeyInput", "data_of", "error_of"]
