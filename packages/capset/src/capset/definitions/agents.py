"""The definition of one agent: its prompt and its capabilities, in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

from typing_extensions import Unpack

from capset.definitions.blocks import Block, BlockKind, Running
from capset.definitions.capabilities import Capability
from capset.definitions.governance.allowances import Allowance
from capset.definitions.names import AGENT, checked_copy, checked_name, checked_text, checked_text_mapping
from capset.definitions.parts import ModelOptions, make_part
from capset.definitions.references import CapabilityRef, DynamicUses, checked_uses
from capset.definitions.tools.options import refuse_unknown
from capset.errors import DefinitionError

MAX_MODEL_CHARACTERS: Final = 200
"""The maximum length of a model's name, in characters."""


class Agent(Block):
    """An agent: a system prompt, instructions and capabilities; the order of ``uses`` is their priority.

    Frozen, and compared by identity. To compare two agents by content, compare their ``composition.static_hash``.
    """

    __slots__ = ("allowance", "model", "static_context")

    kind: ClassVar[BlockKind] = "generator"

    model: str | None
    static_context: Mapping[str, Any]
    allowance: Allowance | None

    def __init__(
        self,
        name: str,
        *,
        system_prompt: str = "",
        uses: Iterable[Capability[Any, Any] | CapabilityRef[Any, Any] | DynamicUses] | DynamicUses = (),
        description: str = "",
        static_context: Mapping[str, Any] | None = None,
        model: str | None = None,
        allowance: Allowance | None = None,
        **options: Unpack[ModelOptions],
    ) -> None:
        """Check and freeze every argument. Raises ``DefinitionError``, naming the agent.

        The agent's own ``options`` are those of ``ModelOptions``; its ``policies`` apply to every tool that it has.
        ``static_context`` has values of the host by name, deep-copied: a session host starts with them when it merges
        the context of a turn, and no model sees them. ``model`` names the model for its turns, in the terms of the
        runner, 1–200 characters. ``allowance`` limits what its sessions and runs may use, and all its calls together;
        it never raises another allowance. None of these three is hashed.
        """
        owner = f"agent {name!r}"
        refuse_unknown(Agent.__init__, options, ModelOptions)
        super().__init__(
            checked_name("an agent's name", name, AGENT),
            system_prompt=checked_text(f"{owner}: system_prompt", system_prompt),
            uses=checked_uses(owner, uses),
            description=checked_text(f"{owner}: description", description),
            part=make_part(owner, **options),
        )
        entries = checked_text_mapping(f"{owner}: static_context", {} if static_context is None else static_context)
        self.static_context = MappingProxyType(
            {key: checked_copy(f"{owner}: static_context: {key!r}", value) for key, value in entries.items()}
        )
        self.model = None if model is None else _checked_model(owner, model)
        if allowance is not None and not isinstance(allowance, Allowance):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DefinitionError(f"{owner}: allowance is an Allowance(…); got {allowance!r:.80}")
        self.allowance = allowance
        self.freeze()

    async def run(self, running: Running, input: Any) -> Any:
        """Run the agent on the kernel's generator runner, and return its answer."""
        return await running.generate(input, None)


def _checked_model(owner: str, model: str) -> str:
    if not 1 <= len(checked_text(f"{owner}: model", model)) <= MAX_MODEL_CHARACTERS:
        raise DefinitionError(
            f"{owner}: model must be a name of 1–{MAX_MODEL_CHARACTERS} characters; got {model!r:.80}",
            hint="leave it out to let the host choose",
        )
    return model
