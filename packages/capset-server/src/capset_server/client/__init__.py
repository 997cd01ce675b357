"""Typed, async client of a server's REST API: ``async with Client(url, key=key) as client: …`` (extra ``client``)."""

from __future__ import annotations

from capset.wire.agents import AgentInput, CapabilityEntry
from capset.wire.operations import KeyInput
from capset_server.client.client import Client
from capset_server.client.events import CallEvents
from capset_server.client.failures import data_of, error_of
from capset_server.client.files import FileContent

__all__ = ["AgentInput", "CallEvents", "CapabilityEntry", "Client", "FileContent", "KeyInput", "data_of", "error_of"]
