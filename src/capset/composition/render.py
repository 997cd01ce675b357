"""What the model is told, as one text (spec 1, C17, C21)."""

from __future__ import annotations

from collections.abc import Iterable

from capset.definitions.agents import Agent
from capset.definitions.capabilities import Capability


def render_system(agent: Agent, capabilities: Iterable[Capability]) -> str:
    """Return the system text, blank lines between its parts.

    Each capability's instructions stand in a block of their own; then come the agent's prompt and instructions.
    """
    blocks = [
        "\n".join((f'<capability id="{one.name}">', "\n\n".join(one.instructions), "</capability>"))
        for one in capabilities
        if one.instructions
    ]
    return "\n\n".join(text for text in (*blocks, agent.system_prompt.strip(), *agent.instructions) if text)
