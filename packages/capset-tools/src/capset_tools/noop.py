"""``noop``: a capability that contributes nothing, for tests and demonstrations (spec 5, P17)."""

from __future__ import annotations

from capset import Capability

noop = Capability(
    "noop",
    title="No-Op",
    description="Adds nothing to an agent, neither tools nor instructions. For trying out how agents are composed.",
    category="Testing",
)
