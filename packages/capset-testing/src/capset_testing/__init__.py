"""Tools for testing third-party code: a controllable clock, a session, a scripted model, and test suites."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from capset.extras import install_command
from capset_agents.playback.scripts import Call, Say, ScriptError
from capset_testing.capability_suite import capability_suite
from capset_testing.harness import Desk, FakeClock, session_for
from capset_testing.processor_suite import processor_suite
from capset_testing.script import ScriptedRunner, StepInput
from capset_testing.store_suite import store_suite

if TYPE_CHECKING:
    from capset_agents.playback.cassette_model import CassetteModel, CassetteRecorder
    from capset_agents.playback.script_model import ScriptedModel

__all__ = [
    "Call",
    "CassetteModel",
    "CassetteRecorder",
    "Desk",
    "FakeClock",
    "Say",
    "ScriptError",
    "ScriptedModel",
    "ScriptedRunner",
    "StepInput",
    "capability_suite",
    "processor_suite",
    "session_for",
    "store_suite",
]

_MODELS: Final = {
    "CassetteModel": "capset_agents.playback.cassette_model",
    "CassetteRecorder": "capset_agents.playback.cassette_model",
    "ScriptedModel": "capset_agents.playback.script_model",
}


def __getattr__(name: str) -> Any:  # a class of the extra ``agent``, which takes two seconds to import
    if name not in _MODELS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_MODELS[name]), name)
    except ModuleNotFoundError as missing:
        if missing.name != "pydantic_ai":
            raise
        raise ModuleNotFoundError(
            f"capset_testing.{name} needs pydantic-ai: {install_command('agent')}", name=missing.name
        ) from None
