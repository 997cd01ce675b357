"""The models that agents may use: a default, and a list to choose from (extra ``agent``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model

from capset.errors import CapsetError, unknown
from capset_agents.playback.cassette_model import CassetteRecorder
from capset_agents.playback.cassettes import CassetteFile
from capset_agents.playback.script_model import ScriptedModel
from capset_agents.playback.scripts import Script


class ModelUnavailable(CapsetError):
    """An agent's model cannot be used here: it is not allowed, unknown, or has no API key."""

    code = "model_unavailable"
    status = 422


class ModelChoice:
    """A default model, and the models that agents may choose by name.

    Models are created when they are first used. pydantic-ai reads their API keys from the environment.
    """

    def __init__(
        self,
        default: str | Model | Script | None,
        allowed: Iterable[str] | Mapping[str, str | Model | Script] = (),
        *,
        record: CassetteFile | None = None,
    ) -> None:
        """Take a default model and the allowed ones: pydantic-ai's names, or the host's own with models or scripts.

        If ``record`` is given, the answers of all models are recorded in it.
        """
        self._record = record
        self._default = default
        self._allowed: dict[str, str | Model | Script] = (
            {**allowed} if isinstance(allowed, Mapping) else {name: name for name in allowed}
        )
        self._models: dict[str, Model] = {}

    def resolve(self, name: str | None, agent: str) -> Model:
        """Return the model for an agent: the one called ``name``, or the default. Raises ``ModelUnavailable``."""
        model = self._find(name, agent)
        return model if self._record is None else CassetteRecorder(model, self._record)

    def _find(self, name: str | None, agent: str) -> Model:
        choice = self._default if name is None or name == self._default else self._allowed.get(name)
        if choice is None:
            if name is None:
                raise ModelUnavailable(
                    f"the agent {agent!r} names no model, and there is no default: set its `model`, or name a default "
                    "with --model NAME or CAPSET_MODEL"
                )
            raise ModelUnavailable(
                unknown("model", name, [*self._allowed, *([self._default] if isinstance(self._default, str) else [])])
                + "; agents use only models that the host allows: in the served file, or with --allow-model NAME"
            )
        if isinstance(choice, Script):
            return ScriptedModel(script=choice, agent=agent)
        if not isinstance(choice, str):
            return choice
        if choice not in self._models:
            self._models[choice] = _create_model(choice)
        return self._models[choice]


def _create_model(name: str) -> Model:
    try:
        return infer_model(name)
    except (UserError, ValueError) as error:
        raise ModelUnavailable(f"the model {name!r} cannot be used: {error}") from error
    except ImportError as error:
        raise ModelUnavailable(
            f"the model {name!r} needs a package that is not installed: {error}; install the provider's extra of "
            "pydantic-ai-slim"
        ) from error
