"""A host's rules for third-party tools: effect, limits, approval, allowed arguments (spec 7, M6)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, TypedDict, cast

from capset.definitions.governance.policies import Decision, Policy, Request, allow, deny
from capset.definitions.names import checked_copy, checked_mapping, checked_permissions
from capset.definitions.tools.options import Effect, Limits, checked_options
from capset.errors import DefinitionError, closest, unknown
from capset.schemas.json_schema import JsonSchema, compile_json_schema
from capset.schemas.validation_errors import SchemaMismatch
from capset_connect.pins.offers import Offer

EVERY: Final = "*"
"""The name of the rules for every tool, which apply where its own rules say nothing."""
_EFFECTS: Final[tuple[Effect, ...]] = ("read", "write", "external", "destructive")
"""From the weakest to the strongest."""
_SHOWN: Final = 3
"""The maximum number of disallowed arguments, or missing tools, that a refusal names."""


class ToolRules(TypedDict, total=False):
    """The rules of a third-party tool: options of ``@tool``, and ``arguments`` and ``unchecked_patterns``."""

    effect: Effect
    """``destructive``, if left out."""
    permissions: Iterable[str]
    """Permissions that a principal needs in addition to those for all tools of the server."""
    limits: Limits
    """Call limits, such as ``10/1h`` for one principal."""
    approval: Literal["auto", "ask"]
    """``ask`` if every call needs an approval."""
    timeout: float
    """Seconds that a call may take."""
    idempotent: bool
    """Whether repeating a call with the same arguments has no further effect."""
    arguments: Mapping[str, Mapping[str, Any]]  # JSON Schema
    """Restrictions on arguments beyond the tool's own schema: a JSON Schema for each, by name.

    Each needs a ``type``, a ``const`` or an ``enum``. With ``required: true``, calls without the argument are refused.
    Arguments that are named neither here nor in the tool's schema are refused, even if that schema is open.
    """
    unchecked_patterns: Literal["allow", "refuse"]
    """``refuse`` to refuse calls of a tool whose schema has a pattern that cannot be checked; otherwise ``allow``."""


Rules = Mapping[str, ToolRules]
"""Rules by the original names of tools, or ``*``."""


def checked_rules(owner: str, declared: Mapping[str, Mapping[str, Any]]) -> Rules:  # possibly from a file
    """Return the rules, validated and frozen. Raises ``DefinitionError``, naming the tool and the rule."""
    checked: dict[str, ToolRules] = {}
    for name, members in checked_mapping(owner, declared or {}).items():
        label = f"{owner} of {name!r}"
        rules = {**checked_mapping(label, members)}
        for rule in rules:
            if rule not in ToolRules.__annotations__:
                raise DefinitionError(f"{label}: {unknown('rule', rule, ToolRules.__annotations__)}")
        if rules.get("approval", "auto") not in ("auto", "ask"):
            raise DefinitionError(f"{label}: approval is auto or ask; got {rules['approval']!r:.80}")
        if rules.get("unchecked_patterns", "allow") not in ("allow", "refuse"):
            raise DefinitionError(
                f"{label}: unchecked_patterns is allow or refuse; got {rules['unchecked_patterns']!r:.80}"
            )
        non_options = ("arguments", "unchecked_patterns")
        checked_options(label, {rule: value for rule, value in rules.items() if rule not in non_options})
        if "permissions" in rules:
            rules["permissions"] = checked_permissions(label, rules["permissions"])
        if "arguments" in rules:
            _allowed(label, rules["arguments"])
        checked[name] = cast("ToolRules", MappingProxyType(checked_copy(label, rules)))
    return MappingProxyType(checked)


def rules_of(rules: Rules, name: str) -> ToolRules:
    """Return the rules of a tool: its own, and those of every tool where its own say nothing."""
    return cast("ToolRules", {**rules.get(EVERY, {}), **rules.get(name, {})})


def options_of(
    owner: str,
    rules: ToolRules,
    *,
    permissions: Iterable[str],
    policies: Iterable[Policy],
    timeout: float,
    names: Collection[str],
    unknown: Collection[str] = (),
) -> dict[str, Any]:  # the options of a tool, as make_tool takes them
    """Return the options of a tool under these rules. The other values apply to all tools of its server.

    ``owner`` is the prefix of the names of its policies, such as ``mcp:github``; ``names`` are the arguments in the
    tool's schema. ``unknown`` are arguments that the rules name and the tool does not have (``unknown_arguments``): its
    calls are refused, since the rule would have no effect.
    """
    options: dict[str, Any] = {"effect": "destructive", "timeout": timeout, **rules}
    options["permissions"] = frozenset(permissions) | frozenset(rules.get("permissions", ()))
    rule_policies: list[Policy] = []
    if (allowed := options.pop("arguments", None)) is not None:
        rule_policies.append(argument_policy(owner, allowed, names, unknown))
    if options.pop("unchecked_patterns", "allow") == "refuse":
        rule_policies.append(Policy(f"{owner}:patterns", _refuse_unchecked_patterns, phase="call"))
    return {**options, "policies": [*policies, *rule_policies]}


def argument_policy(
    owner: str,
    allowed: Mapping[str, Mapping[str, Any]],  # JSON Schema
    names: Collection[str],
    unknown: Collection[str] = (),
) -> Policy:
    """Return the policy ``OWNER:arguments``, which denies calls with other arguments than ``allowed``.

    ``names`` and ``unknown`` are as for ``options_of``. Raises ``DefinitionError`` for an invalid restriction.
    """
    return Policy(f"{owner}:arguments", _ArgumentPolicy(owner, allowed, names, unknown), phase="call")


def effect_of(effect: Effect, annotations: Mapping[str, Any]) -> Effect:
    """Return the effect of a tool: the one that the host sets, which MCP hints can only strengthen."""
    hinted: Effect = "read"
    if annotations.get("readOnlyHint") is False:
        hinted = "destructive" if annotations.get("destructiveHint") is True else "write"
    elif annotations.get("destructiveHint") is True and annotations.get("readOnlyHint") is not True:
        hinted = "destructive"
    return _EFFECTS[max(_EFFECTS.index(effect), _EFFECTS.index(hinted))]


def unknown_arguments(rules: Rules, name: str, schema_names: Collection[str]) -> list[str]:
    """Return the arguments that a tool's own rules name and its schema does not; none if the schema names none.

    Rules for every tool (``*``) may name arguments that some tools do not have.
    """
    return sorted(set(rules.get(name, {}).get("arguments", {})) - set(schema_names)) if schema_names else []


class RuleNames:
    """The tool names in the rules of a source.

    A rule whose name matches no tool may be meant for any tool, which would then be called without the rule.

    Args:
        rules: the names.
        names_of: returns the names that rules may have, given the offers of the source.
    """

    def __init__(self, rules: Iterable[str], names_of: Callable[[Sequence[Offer]], Collection[str]]) -> None:
        self._given = frozenset(rules) - {EVERY}
        self._known = names_of
        self._last: tuple[Sequence[Offer], str | None] | None = None

    def __bool__(self) -> bool:
        """Whether any tool is named."""
        return bool(self._given)

    def problem(self, label: str, offers: Sequence[Offer]) -> str | None:
        """Return why no tool of a source may be called, or ``None`` if it has all tools that its rules name."""
        if not self._given:
            return None
        if self._last is None or self._last[0] is not offers:  # the same list serves many calls
            self._last = (offers, self._compared(label, offers))
        return self._last[1]

    def _compared(self, label: str, offers: Sequence[Offer]) -> str | None:
        names = self._known(offers)
        strays = sorted(self._given.difference(names))
        if not strays:
            return None
        # Other names are not shown: others wrote them, and a model may read this.
        meant = ((stray, closest(stray, names)) for stray in strays[:_SHOWN])
        summary = ", ".join(repr(stray) + (f" (did you mean {near!r}?)" if near else "") for stray, near in meant)
        more = ", …" if len(strays) > _SHOWN else ""
        return f"No tool of the {label} may be called while its rules name tools that it does not have: {summary}{more}"


class _ArgumentPolicy:
    """Denies calls with arguments that the host does not allow, or that neither the rules nor the schema list.

    If the schema is open, the server might read a restricted value under a second name.
    """

    def __init__(
        self, owner: str, allowed: Mapping[str, Mapping[str, Any]], names: Collection[str], unknown: Collection[str]
    ) -> None:
        self._schema = _allowed(owner, allowed)
        self._listed = frozenset((*allowed, *names))
        self._unknown = ", ".join(unknown)

    def __call__(self, request: Request) -> Decision:
        if self._unknown:
            return deny(f"The rules for this tool name arguments that it does not have: {self._unknown}")
        arguments = dict(request.arguments or {})
        if strays := sorted(arguments.keys() - self._listed):
            details = ", ".join(f"{name!r:.80}" for name in strays[:_SHOWN])
            return deny(f"These arguments are listed neither in the rules for this tool nor in its schema: {details}")
        try:
            self._schema.check(arguments)
        except SchemaMismatch as error:
            details = "; ".join(f"{field.path or 'the arguments'}: {field.expected}" for field in error.fields[:_SHOWN])
            return deny(f"These arguments are not allowed here: {details}")
        return allow()


def _refuse_unchecked_patterns(request: Request) -> Decision:
    schema = None if request.tool is None else request.tool.arguments
    if isinstance(schema, JsonSchema) and schema.unchecked_patterns:
        return deny("The schema of this tool has a pattern that cannot be checked, and the rules for it refuse that")
    return allow()


def _allowed(owner: str, declared: object) -> JsonSchema:
    """Return the schema of the restricted arguments, which is open for all others."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, definition in checked_mapping(f"{owner}: arguments", declared).items():
        schema: dict[str, Any] = checked_mapping(f"{owner}: arguments: {name}", definition)
        if isinstance(is_required := schema.get("required"), bool):
            del schema["required"]
            required += [name] * is_required
        if not {"type", "const", "enum"} & schema.keys():
            raise DefinitionError(
                f"{owner}: arguments: {name}: a type, a const or an enum is needed: values of other types would pass",
                hint="such as {type: string, pattern: ^/data/}",
            )
        properties[name] = schema
    return compile_json_schema(
        f"{owner}: arguments",
        {"type": "object", "properties": properties, "required": sorted(required)},
        is_strict=True,
    )
