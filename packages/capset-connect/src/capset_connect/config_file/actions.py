"""An action of a configuration file: a handler with its schemas, or a restricted installed tool (G8, G27)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, cast

from capset.definitions.capabilities import AnyCapability
from capset.definitions.governance.limits import Limit, checked_limits
from capset.definitions.names import checked_permissions
from capset.definitions.tools.definition import AnyTool, Tool
from capset.definitions.tools.retries import Retry, checked_retry
from capset.definitions.tools.schema_tools import adapt_handler, returns_schema, schema_tool
from capset.errors import DefinitionError, NotFound, refuse_unknown_keys, unknown
from capset.kernel.registry import Registry
from capset.schemas.parameters import parameters_schema
from capset_connect.config_file.handlers import FoundHandler, Handlers, Unloaded, not_loaded
from capset_connect.config_file.shapes import BUILT_IN, ActionShape
from capset_connect.tool_rules import argument_policy

T = TypeVar("T")
_OWN: Final = ("parameters", "returns", "effect", "idempotent")
"""Members that an action may not set if its tool is installed, or if its handler is a ``Tool``."""
_UNSEEN: Final = "not known here"
"""The description if the handler was not loaded: it may be a ``Tool`` with its own description."""
Report = Callable[[str, str], None]
"""Reports a problem: the member of the action, by its documented name, and the message."""


@dataclass(frozen=True, slots=True)
class Borrowed:
    """A tool of an installed capability, and the action derived from it."""

    capability: AnyCapability
    original: AnyTool
    tool: AnyTool


@dataclass(frozen=True, slots=True)
class ActionEntry:
    """An action of a file. ``invalid`` names the invalid members, which are not in the shape."""

    shape: ActionShape
    invalid: frozenset[str]


def build_action(
    action: ActionEntry, handlers: Handlers | Unloaded, registry: Registry, report: Report
) -> AnyTool | Borrowed | None:
    """Return the tool of an action, or report all of its problems and return ``None``."""
    return _Building(action, report).build(handlers, registry)


class _Building:
    def __init__(self, action: ActionEntry, report: Report) -> None:
        self._invalid = action.invalid
        self._shape = action.shape
        self._owner = f"tool {action.shape.name!r}"
        self._report = report
        self._is_sound = not action.invalid

    def build(self, handlers: Handlers | Unloaded, registry: Registry) -> AnyTool | Borrowed | None:
        shape = self._shape
        named = shape.tool or (None if shape.handler else BUILT_IN.get(shape.name.replace("_", "-")))
        if shape.handler is not None and shape.tool is not None:
            self._wrong("tool", "an action must have a handler or a tool, not both")
        if named is not None:
            return self._borrowed(registry, named)
        if shape.handler is None and not {"handler", "tool"} & self._invalid:
            message = "an action needs a handler, such as ./handlers/weather.py, or a tool that is installed here"
            self._wrong("", f"{message}: tool: CAPABILITY.TOOL")
        self._check_permissions()
        if shape.handler is None:
            self._parts(None)
            return None
        handler = self._try("handler", lambda: handlers.resolve(cast("str", shape.handler)))
        value: object = None if handler is None else handler.value
        if handler is not None and isinstance(value, Tool):
            tool = cast("AnyTool", value)
            return self._narrower(tool, tool.version or _version(handler))
        self._parts(value)
        return self._try("", lambda: self._tool(handler)) if handler is not None and self._is_sound else None

    def _tool(self, handler: FoundHandler) -> AnyTool:
        shape = self._shape
        members = {
            name: getattr(shape, name) for name in ("effect", "permissions", "idempotent", "timeout", "approval")
        }
        return schema_tool(
            name=shape.name,
            title=shape.title,
            description=shape.description or shape.title or (_UNSEEN if handler.value is not_loaded else ""),
            parameters=shape.parameters or {},
            handler=handler.value,
            returns=shape.returns,
            version=_version(handler),
            limits=self._limits(),
            **{name: value for name, value in members.items() if value is not None},
            retry=self._retry(idempotent=bool(shape.idempotent)),
        )

    def _parts(self, handler: Any) -> None:  # any value from a module
        """Report the problems of every member, except those of loading the handler."""
        shape = self._shape
        if handler is not None:
            self._try("handler", lambda: adapt_handler(self._owner, handler))
        description = shape.description or shape.title or (_UNSEEN if handler is not_loaded else "")
        if not description.strip() and not {"description", "title"} & self._invalid:
            self._wrong("description", "an action needs a description or a title: models choose actions by it")
        self._try("parameters", lambda: parameters_schema(self._owner, shape.parameters or {}))
        self._try("returns", lambda: returns_schema(self._owner, shape.returns, is_own=True))
        self._try("limits", self._limits)
        self._try("retry", lambda: self._retry(idempotent=bool(shape.idempotent)))
        if shape.arguments is not None:
            self._wrong("arguments", "the action has its own parameters: restrict them there")

    def _borrowed(self, registry: Registry, named: str) -> Borrowed | None:
        name, _, tool_name = named.partition(".")
        if not tool_name:
            self._wrong("tool", f"an installed tool must be given as CAPABILITY.TOOL; got {named!r:.80}")
            return None
        place = "tool" if self._shape.tool is not None else ""
        try:
            capability = registry.get(name)
        except NotFound as error:
            self._wrong(place, error.message)
            return None
        tools = {candidate.name: candidate for candidate in capability.every_tool}
        if tool_name not in tools:
            self._wrong(place, f"capability {name!r}: {unknown('tool', tool_name, tools)}")
            return None
        original = tools[tool_name]
        tool = self._narrower(original, original.version)
        return None if tool is None else Borrowed(capability, original, tool)

    def _narrower(self, tool: AnyTool, version: str | None) -> AnyTool | None:
        """Return a tool with additional requirements. None of the original's is removed."""
        shape = self._shape
        for field in _OWN:
            if getattr(shape, field) is not None:
                self._wrong(field, f"the tool {tool.name!r} defines its own {field}; remove it here")
        if shape.approval == "auto" and tool.approval != "auto":
            self._wrong("approval", f"the tool {tool.name!r} requires approval; a file cannot remove that")
        limits = self._try("limits", self._limits)
        retry = self._try("retry", lambda: self._retry(idempotent=tool.idempotent))
        permissions = self._try("permissions", lambda: checked_permissions(self._owner, shape.permissions or ()))
        policies = [*tool.policies]
        if shape.arguments is not None:
            rules, names = shape.arguments, tool.arguments.json_schema.get("properties", {})
            if names and (unknown_names := sorted(rules.keys() - names)):
                self._wrong("arguments", unknown("argument", unknown_names[0], names))
            if policy := self._try("arguments", lambda: argument_policy(f"action:{shape.name}", rules, names)):
                policies.append(policy)
        if not self._is_sound:
            return None
        times = [seconds for seconds in (tool.timeout, shape.timeout) if seconds is not None]
        return self._try(
            "",
            lambda: replace(
                tool,
                name=shape.name,
                title=shape.title or tool.title,
                description=shape.description or tool.description,
                permissions=tool.permissions | (permissions or frozenset()),
                limits=tuple(dict.fromkeys((*tool.limits, *(limits or ())))),
                policies=tuple(policies),
                timeout=min(times) if times else None,
                approval="ask" if shape.approval == "ask" else tool.approval,
                retry=retry or tool.retry,
                version=version,
            ),
        )

    def _limits(self) -> tuple[Limit, ...]:
        limits = self._shape.limits
        return () if limits is None else checked_limits(self._owner, limits)

    def _retry(self, *, idempotent: bool) -> Retry | None:
        retry = self._shape.retry
        if isinstance(retry, Mapping):
            values = cast("Mapping[str, Any]", retry)
            refuse_unknown_keys(f"{self._owner}: retry", values, ("max_attempts", "base", "cap"))
            if "max_attempts" not in values:
                raise DefinitionError(f"{self._owner}: retry: max_attempts is missing")
            try:
                retry = Retry(**values)
            except DefinitionError as error:
                raise DefinitionError(f"{self._owner}: retry: {error.message}") from None
        return checked_retry(self._owner, retry, idempotent=idempotent)

    def _check_permissions(self) -> None:
        if self._shape.permissions is None and "permissions" not in self._invalid:
            self._wrong("permissions", "list the permissions that a principal needs, or [] for none")

    def _try(self, field: str, make: Callable[[], T]) -> T | None:
        """Return the result of ``make``; if it raises, report the error and return ``None``."""
        if field in self._invalid:
            return None
        try:
            return make()
        except DefinitionError as error:
            hint = f"; {error.hint}" if error.hint else ""
            message = error.message.removeprefix(f"{self._owner}: ").removeprefix(f"{self._owner} ")
            place, colon, rest = message.partition(": ")
            is_place = bool(colon) and bool(field) and (place == field or place.startswith(f"{field}."))
            self._wrong(place if is_place else field, f"{rest if is_place else message}{hint}")
            return None

    def _wrong(self, place: str, message: str) -> None:
        self._is_sound = False
        self._report(place, message)


def _version(handler: FoundHandler) -> str | None:
    """Return a version derived from the handler's file, so that the tool's hash changes with the handler."""
    return None if handler.digest is None else f"sha256:{handler.digest}"
