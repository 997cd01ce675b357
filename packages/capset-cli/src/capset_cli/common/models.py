"""The models of agents on the command line: ``--model``, ``--allow-model`` and ``--record``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from capset.errors import DefinitionError
from capset_agents.budgets import MAX_STEPS, SUMMARISE_AT
from capset_cli.common.exits import require_extra
from capset_cli.common.output import err, escaped

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from capset_agents.models import ModelChoice
    from capset_agents.playback.cassettes import CassetteFile
    from capset_agents.playback.scripts import Script
    from capset_agents.runner import AgentRunner
    from capset_connect.config_file import Configuration

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
        "--allow-model",
        metavar="NAME",
        help="Another model that agents may use by this name, beside those that the file names; may be repeated.",
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
    configuration: Configuration | None = None,
    record: Path | None = None,
    append: bool = False,
) -> AgentRunner:
    """Return the runner of agents. It records the models' answers in ``record``, replacing it unless ``append``.

    The agents of a configuration use the models that its files name, or the script or cassette that ``model`` is.

    Raises ``DefinitionError`` if the extra ``agent`` is missing, or a script or a cassette cannot be read or recorded.
    """
    require_extra("agent", "pydantic_ai")
    from capset_agents.budgets import TurnBudget
    from capset_agents.playback.cassettes import CassetteFile
    from capset_agents.runner import AgentRunner

    for name in allowed:
        if name.startswith((_SCRIPT, _CASSETTE)):
            raise DefinitionError(
                "--allow-model: a script or a cassette can only be used with --model, or as the model of a file"
            )
    if record is not None and model is not None and model.startswith(_CASSETTE):
        raise DefinitionError("--record: the answers of a cassette are already recorded", hint="name another --model")
    recorded = None if record is None else CassetteFile(record, append=append)
    budget = TurnBudget(steps=steps or MAX_STEPS, cost=cost, tokens=tokens)
    threshold = SUMMARISE_AT if summarise_at is None else summarise_at or None
    named: Mapping[str, Path] = {} if configuration is None else configuration.models
    return AgentRunner(_model_choice(model, allowed, named, recorded), budget=budget, summarise_at=threshold)


def make_server_runner(
    model: str | None,
    allowed: Sequence[str] | None,
    budget: tuple[int | None, float | None, int | None, int | None],
    configuration: Configuration | None,
) -> AgentRunner | None:
    """Return the runner of a server's agents, or ``None`` if no model is given and its file names none.

    ``budget`` has the steps, the cost, the tokens and the threshold of summaries, as ``make_runner`` takes them.
    Without the extra for models, a file that names one is served, with a warning: its tools can be called.
    """
    if model is None and not allowed:
        if configuration is None or not configuration.models:
            return None
        if find_spec("pydantic_ai") is None:
            names = ", ".join(configuration.models)
            warning = f"{configuration.path} names the model {names}, and agents need the extra agent: none is run"
            err().print(f"[yellow]warning:[/] {escaped(warning)}", soft_wrap=True)
            return None
    return make_runner(model, allowed or (), *budget, configuration=configuration)


def _model_choice(
    model: str | None, allowed: Sequence[str], named: Mapping[str, Path], record: CassetteFile | None
) -> ModelChoice:
    """Return the models. ``named`` are those that files name, each with the folder of its file."""
    from capset_agents.models import ModelChoice

    models: dict[str, str | Model | Script] = {name: name for name in allowed}
    default = None if model is None else _model_of(model, Path())
    if default is not None and not isinstance(default, str):  # it replaces the models that agents name
        replaced = (*allowed, *named) if model is not None and model.startswith(_CASSETTE) else named
        return ModelChoice(default, {**models, **dict.fromkeys(replaced, default)}, record=record)
    models |= {name: _model_of(name, folder) for name, folder in named.items()}
    return ModelChoice(default, models, record=record)


def _model_of(name: str, folder: Path) -> str | Model | Script:
    """Return the script or the cassette that a name stands for, in a file relative to a folder, or the name itself."""
    from capset_agents.playback.cassette_model import CassetteModel
    from capset_connect.scripts import read_script

    if name.startswith(_CASSETTE):
        return CassetteModel(folder / name.removeprefix(_CASSETTE))
    return read_script(folder / name.removeprefix(_SCRIPT)) if name.startswith(_SCRIPT) else name
