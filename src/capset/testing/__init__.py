"""Tools for testing third-party code: a controllable clock, a session, a scripted model, and test suites."""

from __future__ import annotations

from capset.testing.capability_suite import capability_suite
from capset.testing.harness import Desk, FakeClock, session_for
from capset.testing.processor_suite import processor_suite
from capset.testing.script import Call, Say, ScriptedRunner, ScriptError, Seen
from capset.testing.store_suite import store_suite

__all__ = [
    "Call",
    "Desk",
    "FakeClock",
    "Say",
    "ScriptError",
    "ScriptedRunner",
    "Seen",
    "capability_suite",
    "processor_suite",
    "session_for",
    "store_suite",
]
