"""The models of agents on the command line: ``--model``, ``--allow-model`` and ``--record``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from capset.errors import DefinitionError
from capset_agents.budgets import MAX_STEPS, SUMMARISE_AT
from capset_cli.common.exits import require_extra

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
        help="The model of agents that name none, such as openai:gpt-5 or anthropic:claude-sonnet-4-5. Offline, "
        "script:FILE follows a script, and cassette:FILE replays recorded answers.",
    ),
]
AllowedModels = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-model", metavar="NAME", help="Another model that agents may use by this name; may be repeated."
    ),
]
Record = Annotated[
    Path | None,
    typer.Option(
        "--record",
        metavar="FILE",
        help="Record the model's answers in a file, for --model cassette:FILE. The file is replaced; with --session, "
        "answers are appended.",
    ),
]
MaxSteps = Annotated[
    int | None,
    typer.Option(
        "--max-steps",
        min=1,
        max=1_000,
        help=f"The maximum number of model requests in one turn; {MAX_STEPS} unless set.",
    ),
]

MaxCost = Annotated[
    float | None,
    typer.Option(
        "--max-cost", metavar="USD", help="The maximum cost of one turn; models without a known price are refused."
    ),
]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", min=1, help="The maximum number of tokens in one turn.")]
SummariseAt = Annotated[
    int | None,
    typer.Option(
        "--summarise-at",
        metavar="TOKENS",
        min=0,
        help="The size of a conversation from which a summary replaces its older turns; "
        f"{SUMMARISE_AT:,} unless set, 0 for never.",
    ),
]


def make_runner(
    model: str | None,
    allowed: Sequence[str],
    steps: int | None = None,
    cost: float | None = None,
    tokens: int | None = None,
    summarise_at: int | None = None,
    *,
    record: Path | None = None,
    append: bool = False,
) -> AgentRunner:
    """Return the runner of agents. It records the models' answers in ``record``, replacing it unless ``append``.

    Raises ``DefinitionError`` if the extra ``agent`` is missing, or a script or a cassette cannot be read or recorded.
    """
    require_extra("agent", "pydantic_ai")
    from capset_agents.budgets import TurnBudget
    from capset_agents.playback.cassettes import CassetteFile
    from capset_agents.runner import AgentRunner

    for name in allowed:
        if name.startswith((_SCRIPT, _CASSETTE)):
            raise DefinitionError("--allow-model: a script or a cassette can only be used with --model")
    if record is not None and model is not None and model.startswith(_CASSETTE):
        raise DefinitionError("--record: the answers of a cassette are already recorded", hint="name another --model")
    recorded = None if record is None else CassetteFile(record, append=append)
    budget = TurnBudget(steps=steps or MAX_STEPS, cost=cost, tokens=tokens)
    threshold = SUMMARISE_AT if summarise_at is None else summarise_at or None
    return AgentRunner(_model_choice(model, allowed, recorded), budget=budget, summarise_at=threshold)


def _model_choice(model: str | None, allowed: Sequence[str], record: CassetteFile | None) -> ModelChoice:
    from capset_agents.models import ModelChoice
    from capset_agents.playback.cassette_model import CassetteModel
    from capset_connect.scripts import read_script

    if model is not None and model.startswith(_CASSETTE):
        # It also replaces the models that agents name: their answers were recorded with the rest.
        cassette = CassetteModel(model.removeprefix(_CASSETTE))
        return ModelChoice(cassette, dict.fromkeys(allowed, cassette))
    if model is not None and model.startswith(_SCRIPT):
        return ModelChoice(read_script(Path(model.removeprefix(_SCRIPT))), allowed, record=record)
    return ModelChoice(model, allowed, record=record)
