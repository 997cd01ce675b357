"""The context of a call, created only for handlers that ask for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final, ParamSpec

from pydantic import BaseModel, SecretStr
from typing_extensions import TypeVar

from capset.definitions.calls.clients import ClientAnswer, question_of
from capset.definitions.calls.contexts import DocumentsHandle, ResourceHandle, StateHandle
from capset.definitions.calls.files import Files
from capset.definitions.capabilities import Capability
from capset.definitions.principals import Principal
from capset.definitions.references import CapabilityRef
from capset.definitions.resources import Documents, Resource, Scope
from capset.definitions.tools.definition import Tool
from capset.errors import NotFound, StateError, ToolError, unknown
from capset.kernel.call.client_questions import ask_client, require_capabilities
from capset.kernel.call.dispatch import call_from
from capset.kernel.call.execution import Execution, Origin, execution_of

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
H = TypeVar("H")
C = TypeVar("C")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class CallContext:
    """The ``Context`` of one call, or of one run of a block; the protocol describes the methods."""

    __slots__ = ("origin",)

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        """The call or the run that has this context, for internal use by the kernel."""

    @property
    def principal(self) -> Principal:
        return self.origin.context.principal

    @property
    def session(self) -> LiveScope:
        return LiveScope(self.origin, "session", self.origin.context.id)

    @property
    def user(self) -> LiveScope:
        return LiveScope(self.origin, "user", self.origin.context.key("user", "").owner)

    @property
    def org(self) -> LiveScope:
        return LiveScope(self.origin, "org", self.origin.context.key("org", "").owner)

    @property
    def request(self) -> LiveScope:
        """The scope of the current run. Its id is that of the outermost call or run."""
        outermost = self._execution
        while outermost.parent is not None:
            outermost = outermost.parent
        return LiveScope(self.origin, "request", outermost.origin.id)

    @property
    def correlation(self) -> str:
        return self.origin.correlation

    @property
    def message_id(self) -> str:
        cause = self.origin.options.cause
        return self.origin.id if cause is None else cause[1]

    @property
    def now(self) -> datetime:
        # datetime.fromtimestamp takes seconds as a float, which would round the microseconds.
        return _EPOCH + timedelta(microseconds=self.origin.context.runtime.clock.time_ns() // 1_000)

    @property
    def env(self) -> Mapping[str, Any]:
        return self.origin.context.env

    @property
    def files(self) -> Files:
        return self.origin.files

    @property
    def result_bytes(self) -> int:
        return self.origin.context.runtime.governance.result_bytes

    @property
    def workspace(self) -> Path | None:
        return self.origin.context.runtime.workspace

    @property
    def cap(self) -> HelpersByName:
        return HelpersByName(self)

    @property
    def targets(self) -> Mapping[str, StateHandle[Any] | None]:
        declared = self.origin.context.snapshot.composition.merged.targets
        return MappingProxyType(
            {name: self._execution.target(name, contributed.value) for name, contributed in declared.items()}
        )

    def use(self, capability: Capability[H, Any] | CapabilityRef[H, Any], /) -> H:
        return self._execution.use(capability, CallContext)

    def config(self, capability: Capability[Any, C] | CapabilityRef[Any, C], /) -> C:
        config = self._execution.capability_use(capability).config
        if config is None:
            raise NotFound(f"the capability {capability.name!r} has no config")
        # A copy: one handler's changes must not reach other calls.
        return config.model_copy(deep=True)

    def presets(self, capability: Capability[Any, Any] | CapabilityRef[Any, Any], /) -> frozenset[str]:
        base = self._execution.capability_use(capability).capability
        uses = self.origin.context.snapshot.composition.capability_uses  # a capability may occur twice
        return frozenset(name for choice in uses if choice.capability is base for name in choice.presets)

    def state(self, model: type[M], /, *, scope: Scope | None = None) -> StateHandle[M]:
        return self._execution.state(model, scope)

    def resource(self, resource: Resource[T], /) -> ResourceHandle[T]:
        return self._execution.resource(resource)

    def documents(self, documents: Documents, /) -> DocumentsHandle:
        return self._execution.documents(documents)

    async def secret(self, name: str, /) -> SecretStr:
        context = self.origin.context
        declared = {secret for use in context.snapshot.composition.capability_uses for secret in use.capability.secrets}
        if name not in declared:
            raise ToolError(f"{unknown('secret', name, declared)}; declare it in secrets= of a capability")
        try:
            value = await context.runtime.secrets.get(name)
        except Exception as error:  # its text may hold the secret, so it is neither reported nor logged
            raise ToolError(
                f"the secret {name!r} could not be read: {type(error).__name__}", status=503, hint="check its provider"
            ) from None
        if value is None:
            raise ToolError(f"the secret {name!r} is not set here", status=503, hint=f"set the variable {name}")
        return SecretStr(value)

    async def credential(self, *, refused: SecretStr | None = None) -> SecretStr:
        value = None if refused is None else refused.get_secret_value()
        return SecretStr((await self.origin.lend(value)).value)

    async def call(self, tool: Tool[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await call_from(self.origin, tool, args, kwargs)

    async def ask_client(self, key: str, message: str, form: type[M], /) -> ClientAnswer[M]:
        question, redact = question_of(key, message, form), self.origin.context.runtime.redactor
        if redact is not None:
            question = replace(question, message=redact(message), form=redact(question.form))
        return await ask_client(self.origin.options.client, question)

    def require_client(self, *capabilities: str) -> None:
        require_capabilities(self.origin.options.client, capabilities)

    @property
    def _execution(self) -> Execution:
        return execution_of(self.origin)


class NoSuchField(StateError, AttributeError):
    """A missing field of a scope's state: also an ``AttributeError``, so that ``hasattr`` works."""


class StateView:
    """A read-only view of a scope's state: its fields are attributes, and setting one is refused."""

    __slots__ = ("_scope", "_state")

    def __init__(self, scope: Scope, state: BaseModel) -> None:
        object.__setattr__(self, "_scope", scope)
        object.__setattr__(self, "_state", state)

    def __getattr__(self, name: str) -> Any:
        """Return a field. Raises ``AttributeError`` with the nearest name."""
        fields = type(self._state).model_fields
        if name not in fields:
            raise NoSuchField(f"the {self._scope} state: {unknown('field', name, fields)}")
        return getattr(self._state, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Raise ``StateError``, since an assignment would be lost."""
        raise StateError(
            f"the {self._scope} state is a read-only view; {name!r} cannot be set",
            hint=f"write with ctx.state(Model): await ctx.state(…).patch({name}=…)",
        )

    def __eq__(self, other: object) -> bool:
        """Whether both show the same state. An equal model is equal, too."""
        return bool(self._state == (other._state if isinstance(other, StateView) else other))

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # as for mutable models

    def __repr__(self) -> str:
        return f"StateView({self._scope}, {self._state!r})"


class LiveScope:
    """The ``ScopeView`` of one call."""

    __slots__ = ("_origin", "_scope", "id")

    def __init__(self, origin: Origin, scope: Scope, id: str) -> None:
        self._origin = origin
        self._scope: Scope = scope
        self.id = id

    @property
    def state(self) -> Any:  # of the model that joins the fields of all capabilities
        return StateView(self._scope, execution_of(self._origin).view(self._scope))

    @property
    def resources(self) -> SimpleNamespace:
        execution = execution_of(self._origin)
        handles = {
            name: execution.documents(resource) if isinstance(resource, Documents) else execution.resource(resource)
            for name, resource in execution.resources(self._scope).items()
        }
        return SimpleNamespace(**handles)


class _NoHelpers(NotFound, AttributeError):
    """The error of a missing attribute: also an ``AttributeError``, so that ``hasattr`` and ``getattr`` work."""


_METHODS: Final = frozenset(name for name in dir(Mapping) if not name.startswith("_"))


class HelpersByName(Mapping[str, Any]):
    """Helpers by the name of their capability, built on lookup; capabilities without helpers are absent.

    A capability that is named like a mapping method, such as ``items``, hides that method. With one named ``keys``,
    ``**ctx.cap`` does not work; with one named ``get``, ``match`` does not.
    """

    __slots__ = ("_ctx",)

    def __init__(self, ctx: CallContext) -> None:
        self._ctx = ctx

    def __getitem__(self, name: str) -> Any:
        """Return a capability's helpers. Raises ``NotFound`` with the nearest name."""
        capabilities = self._capabilities_with_helpers()
        if name not in capabilities:
            raise _NoHelpers(unknown("capability with helpers", name, capabilities))
        return self._ctx.use(capabilities[name])

    def __getattribute__(self, name: str) -> Any:
        """Return a capability's helpers, if it has the name of a mapping method."""
        if name in _METHODS and name in self._capabilities_with_helpers():
            return self[name]
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        """Return a capability's helpers."""
        if name.startswith("__"):  # Python's own protocols, such as copying
            raise AttributeError(name)
        return self[name]

    def get(self, name: str, default: Any = None, /) -> Any:
        """Return a capability's helpers, or ``default``. A factory's exceptions propagate, a ``KeyError`` too."""
        capabilities = self._capabilities_with_helpers()
        return self._ctx.use(capabilities[name]) if name in capabilities else default

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._capabilities_with_helpers())

    def __len__(self) -> int:
        """Return the number of capabilities with helpers."""
        return len(self._capabilities_with_helpers())

    def __contains__(self, name: object) -> bool:
        """Whether there is a capability of this name with helpers; nothing is built."""
        return name in self._capabilities_with_helpers()

    def _capabilities_with_helpers(self) -> Mapping[str, Capability[Any, Any]]:
        used = self._ctx.origin.context.snapshot.composition.capabilities
        return {capability.name: capability for capability in used if capability.helpers is not None}
