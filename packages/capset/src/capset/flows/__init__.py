"""Blocks and flows: steps that use capabilities, and their combinations (spec 1, C37, C38)."""

from __future__ import annotations

from capset.flows.flow import Flow
from capset.flows.generator import Generator
from capset.flows.handler import Handler, handler
from capset.flows.router import Router
from capset.flows.sequencer import Sequencer
from capset.flows.tools import as_tool

__all__ = ["Flow", "Generator", "Handler", "Router", "Sequencer", "as_tool", "handler"]
