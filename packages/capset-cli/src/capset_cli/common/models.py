"""The models of agents on the command line: ``--model``, ``--allow-model`` and ``--record``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from capset.errors import DefinitionError
from capset_agents.budgets import SUMMARISE_AT
from capset_cli.common.exits import needs_extra

if TYPE_CHECKING:
    from capset_agents.models import ModelChoice
    from capset_agents.playback.cassettes import CassetteFile
    from capset_agents.runner import AgentRunner

_SCRIPT: Final = "script:"
_CASSETTE: Final = "cassette:"

ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        envvar="CAPSET_MODEL",
        help="The model of agents that name none: openai:gpt-5, anthropic:claude-sonnet-4-5 …, or, offline, "
        "script:FILE for one that follows a script, and cassette:FILE for one that gives recorded answers.",
    ),
]
AllowedModels = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-model", metavar="NAME", help="Another model that agents may choose by this name; may be repeated."
    ),
]
Record = Annotated[
    Path | None,
    typer.Option(
        "--record",
        metavar="FILE",
        help="Record the answers of the model for --model cassette:FILE. The file is replaced; with --session they are "
        "appended to it.",
    ),
]
MaxSteps = Annotated[
    int, typer.Option("--max-steps", min=1, max=1_000, help="How often the model is asked in one turn.")
]


MaxCost = Annotated[
    float | None,
    typer.Option("--max-cost", metavar="USD", help="What one turn may cost; models without a known price are refused."),
]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", min=1, help="How many tokens one turn may use in all.")]
SummariseAt = Annotated[
    int,
    typer.Option(
        "--summarise-at",
        metavar="TOKENS",
        min=0,
        help="From which size on the older turns of a conversation are replaced by a summary; 0 for never.",
    ),
]


def make_runner(
    model: str | None,
    allowed: Sequence[str],
    steps: int,
    cost: float | None = None,
    tokens: int | None = None,
    summarise_at: int = SUMMARISE_AT,
    *,
    record: Path | None = None,
    append: bool = False,
) -> AgentRunner:
    """Return the runner of agents, which records what models answer in ``record``, or appends it there.

    Raises ``DefinitionError`` without the extra ``agent``, and for a script or a cassette that cannot be read or
    recorded.
    """
    needs_extra("agent", "pydantic_ai")
    from capset_agents.budgets import TurnBudget
    from capset_agents.playback.cassettes import CassetteFile
    from capset_agents.runner import AgentRunner

    for name in allowed:
        if name.startswith((_SCRIPT, _CASSETTE)):
            raise DefinitionError("--allow-model: a script or a cassette is for --model alone")
    if record is not None and model is not None and model.startswith(_CASSETTE):
        raise DefinitionError("--record: the answers of a cassette are recorded already", hint="name another --model")
    recorded = None if record is None else CassetteFile(record, append=append)
    budget = TurnBudget(steps=steps, cost=cost, tokens=tokens)
    return AgentRunner(_choice(model, allowed, recorded), budget=budget, summarise_at=summarise_at or None)


def _choice(model: str | None, allowed: Sequence[str], record: CassetteFile | None) -> ModelChoice:
    from capset_agents.models import ModelChoice
    from capset_agents.playback.cassette_model import CassetteModel
    from capset_connect.scripts import read_script

    if model is not None and model.startswith(_CASSETTE):
        # It stands for the models that agents name as well: they were recorded with the rest.
        cassette = CassetteModel(model.removeprefix(_CASSETTE))
        return ModelChoice(cassette, dict.fromkeys(allowed, cassette))
    if model is not None and model.startswith(_SCRIPT):
        return ModelChoice(read_script(Path(model.removeprefix(_SCRIPT))), allowed, record=record)
    return ModelChoice(model, allowed, record=record)
