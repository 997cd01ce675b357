"""Rules for approvers: which requests a rule applies to, and who may approve them (spec 4, G45)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Final, get_args

from capset.definitions.capabilities import Risk
from capset.definitions.fields import POSITIVE, REAL, checked_field, requiring, store_checked, within
from capset.definitions.identity import FrozenValue
from capset.definitions.names import (
    ATTRIBUTE,
    PERMISSION,
    checked_flag,
    checked_list,
    checked_mapping,
    checked_name,
    one_or_several,
)
from capset.definitions.principals import Attributes
from capset.definitions.secrets import is_secret_name
from capset.definitions.tools.options import Effect
from capset.errors import DefinitionError, unknown

MAX_RULES: Final = 100
"""The maximum number of rules: each is checked for every call that needs an approval."""
MAX_APPROVALS: Final = 10
"""The maximum number of approvals that a rule may require."""
_TOOL_PATTERN: Final = re.compile(r"(?:[A-Za-z0-9_ .:*?-]{1,100}\.)?[A-Za-z0-9_*?-]{1,64}")
"""A pattern for the names of tools, or for ``CAPABILITY.TOOL``."""
_AGENT_PATTERN: Final = re.compile(r"[A-Za-z0-9*?][A-Za-z0-9 _.*?-]{0,99}")
_OWNER: Final = "a rule for approvers"


@dataclass(frozen=True, slots=True)
class ApprovalSubject:
    """The facts about a call that decide which rules apply to it.

    A tool may have several names, ``pay`` and ``payments.pay``, and be brought by several capabilities; the call has
    the names of its block and of its agent.
    """

    tools: frozenset[str]
    agents: frozenset[str]
    effect: Effect
    risks: frozenset[Risk]


def _distinct(name: str, value: object) -> tuple[Any, ...] | None:  # of any type: the caller checks them next
    """Return the distinct entries of a list, ``None`` if it was left out. Raises ``DefinitionError`` if it is empty."""
    if value is None:
        return None
    entries = tuple(dict.fromkeys(checked_list(f"{_OWNER}: {name}", value)))
    if not entries:
        raise DefinitionError(f"{_OWNER}: {name} is empty, so the rule applies to no request; leave it out for all")
    return entries


def _pattern_check(grammar: re.Pattern[str], example: str) -> Any:  # a check of a field
    def check(name: str, value: object) -> tuple[str, ...] | None:
        patterns = _distinct(name, value)
        for pattern in patterns or ():
            if not isinstance(pattern, str) or not grammar.fullmatch(pattern):
                raise DefinitionError(
                    f"{_OWNER}: {name}: no name fits {pattern!r:.80}; a pattern is a name, "
                    f"with * and ? as wildcards, such as {example}"
                )
        return patterns

    return check


def _choice_check(choices: tuple[str, ...]) -> Any:  # a check of a field
    def check(name: str, value: object) -> tuple[str, ...] | None:
        selected = _distinct(name, value)
        for choice in selected or ():
            if choice not in choices:
                raise DefinitionError(f"{_OWNER}: {name}: {unknown(name.removesuffix('s'), str(choice), choices)}")
        return selected

    return check


def _checked_permission(name: str, value: object) -> str | None:
    return None if value is None else checked_name(f"{_OWNER}: {name}", value, PERMISSION)


def _checked_attribute(name: str, attribute: object) -> str:
    text = checked_name(f"{_OWNER}: {name}: a name", attribute, ATTRIBUTE)
    if is_secret_name(text):
        raise DefinitionError(
            f"{_OWNER}: {name}: {text!r} looks like the name of a secret, but requirements are shown with the request",
            hint="compare another attribute",
        )
    return text


def _checked_attributes(name: str, attributes: object) -> Mapping[str, tuple[Any, ...]]:  # as attributes are
    accepted: dict[str, tuple[Any, ...]] = {}
    for key, value in checked_mapping(f"{_OWNER}: {name}", {} if attributes is None else attributes).items():
        attribute = _checked_attribute(name, key)
        values = one_or_several(value)
        if not values:
            raise DefinitionError(f"{_OWNER}: {name}: {attribute} has no values, so no approver can match; give one")
        for entry in values:
            Attributes({attribute: entry}, what=f"{_OWNER}: {name}")
            if entry is None:
                raise DefinitionError(f"{_OWNER}: {name}: {attribute} is null; name the values that approvers have")
        accepted[attribute] = tuple({attribute_json(entry): entry for entry in values}.values())
    return MappingProxyType(accepted)


def _checked_names(name: str, value: object) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(_checked_attribute(name, attribute) for attribute in checked_list(f"{_OWNER}: {name}", value))
    )


_checked_seconds: Final = requiring(
    f"{_OWNER}: {{}} is a number of seconds, up to a year", within(REAL, POSITIVE, 366 * 86_400), optional=True
)


@dataclass(frozen=True, slots=True, init=False)
class ApproverRule(FrozenValue):
    """A rule for who may approve which requests. All rules that apply to a request must hold, so the strictest decides.

    Args:
        tools: patterns for tool names, ``pay``, or for ``CAPABILITY.TOOL``, ``payments.*``; all if left out.
        effects: the effects of the tools; all if left out.
        agents: patterns for agent names; all if left out.
        risks: the risks of the capabilities that bring the tools; all if left out.
        permission: the permission that an approver must hold.
        attributes: the value, or the possible values, of each attribute that an approver must have.
        same_attributes: the attributes that must be the same for the approver and the requester.
        approvals: how many different principals must approve.
        forbid_own: whether requesters may never approve their own requests, even if the governance allows that.
        expires_after: the seconds for which such a request stays open, and its approval valid.
        escalate_after: the seconds after which others may approve, too.
        escalate_to: the permission that these others must hold, instead of ``permission`` and the attributes.

    Raises ``DefinitionError`` for a rule that applies to no request, requires nothing, or contradicts itself.
    """

    tools: tuple[str, ...] | None = checked_field(_pattern_check(_TOOL_PATTERN, "pay or payments.*"))
    effects: tuple[Effect, ...] | None = checked_field(_choice_check(get_args(Effect)))
    agents: tuple[str, ...] | None = checked_field(_pattern_check(_AGENT_PATTERN, "clerk or finance-*"))
    risks: tuple[Risk, ...] | None = checked_field(_choice_check(get_args(Risk)))
    permission: str | None = checked_field(_checked_permission)
    attributes: Mapping[str, tuple[Any, ...]] = checked_field(_checked_attributes)  # as attributes are
    same_attributes: tuple[str, ...] = checked_field(_checked_names)
    approvals: int = checked_field(
        requiring(f"{_OWNER}: {{}} is a whole number, 1 to {MAX_APPROVALS}", within(int, 1, MAX_APPROVALS))
    )
    forbid_own: bool = checked_field(checked_flag)
    expires_after: float | None = checked_field(_checked_seconds)
    escalate_after: float | None = checked_field(_checked_seconds)
    escalate_to: str | None = checked_field(_checked_permission)

    def __init__(
        self,
        *,
        tools: Iterable[str] | None = None,
        effects: Iterable[Effect] | None = None,
        agents: Iterable[str] | None = None,
        risks: Iterable[Risk] | None = None,
        permission: str | None = None,
        attributes: Mapping[str, Any] | None = None,  # as attributes are
        same_attributes: Iterable[str] = (),
        approvals: int = 1,
        forbid_own: bool = False,
        expires_after: float | None = None,
        escalate_after: float | None = None,
        escalate_to: str | None = None,
    ) -> None:
        store_checked(self, locals())
        self._check()

    @property
    def is_selective(self) -> bool:
        """Whether only some principals may approve: the rule requires a permission or an attribute."""
        return bool(self.permission is not None or self.attributes or self.same_attributes)

    def applies_to(self, subject: ApprovalSubject) -> bool:
        """Whether the rule applies to requests for such calls."""
        return (
            _matches(self.tools, subject.tools)
            and _matches(self.agents, subject.agents)
            and (self.effects is None or subject.effect in self.effects)
            and (self.risks is None or not subject.risks.isdisjoint(self.risks))
        )

    def _check(self) -> None:
        """Raise ``DefinitionError`` for a rule that requires nothing, or contradicts itself."""
        if (self.escalate_after is None) != (self.escalate_to is None):
            raise DefinitionError(f"{_OWNER}: escalate_after and escalate_to belong together: give both, or neither")
        if self.escalate_to is not None and not self.is_selective:
            raise DefinitionError(
                f"{_OWNER}: everybody may approve from the start, so it cannot escalate to {self.escalate_to!r}; "
                "give a permission or attributes, or leave escalate_to out"
            )
        if self.escalate_to is not None and self.escalate_to == self.permission and not self._has_attributes:
            raise DefinitionError(
                f"{_OWNER}: permission and escalate_to are both {self.permission!r}, so it escalates to the same "
                "principals; name another permission"
            )
        if self.expires_after is not None and (self.escalate_after or 0.0) >= self.expires_after:
            raise DefinitionError(
                f"{_OWNER}: it escalates after {self.escalate_after:g} s, but requests expire after "
                f"{self.expires_after:g} s; let it escalate earlier"
            )
        demands = (self.is_selective, self.approvals > 1, self.forbid_own, self.expires_after is not None)
        if not any(demands):
            raise DefinitionError(
                f"{_OWNER} requires nothing: give permission, attributes, same_attributes, approvals, forbid_own or "
                "expires_after"
            )

    @property
    def _has_attributes(self) -> bool:
        return bool(self.attributes or self.same_attributes)


def attribute_json(value: Any) -> str:  # an attribute's value
    """Return an attribute's value as JSON text; equal values of the same type give the same text."""
    return json.dumps(value, ensure_ascii=False)


def checked_approver_rules(
    approvers: object, *, seconds: float, default_permissions: frozenset[str]
) -> tuple[ApproverRule, ...]:
    """Return the rules of a governance. Raises ``DefinitionError`` if they contradict each other or its other settings.

    ``seconds`` is how long a request stays open if no rule sets that.
    """
    rules = checked_list("approvers", approvers)
    if len(rules) > MAX_RULES:
        raise DefinitionError(f"there are at most {MAX_RULES} rules for approvers; got {len(rules)}")
    for number, rule in enumerate(rules, 1):
        if not isinstance(rule, ApproverRule):
            raise DefinitionError(f"approvers must be a list of ApproverRule(…); number {number} is {rule!r:.80}")
        if rule in rules[: number - 1]:
            raise DefinitionError(f"approvers: number {number} is the same rule as an earlier one; remove it")
        for permission in (rule.permission, rule.escalate_to):
            if permission in default_permissions:
                raise DefinitionError(
                    f"approvers: number {number} needs the permission {permission!r}, which every principal holds by "
                    "default_permissions; remove it there, or name another"
                )
        for earlier, other in enumerate(rules[: number - 1], 1):
            if (name := _contradicting_attribute(rule, other)) is not None:
                raise DefinitionError(
                    f"approvers: number {earlier} and number {number} apply to the same requests, but no value of "
                    f"{name!r} is allowed by both; give them a common value, or let one of them escalate"
                )
        open_for = seconds if rule.expires_after is None else rule.expires_after
        if rule.escalate_after is not None and rule.escalate_after >= open_for:
            raise DefinitionError(
                f"approvers: number {number} escalates after {rule.escalate_after:g} s, but requests expire "
                f"after {open_for:g} s; let it escalate earlier, or give it expires_after"
            )
    return tuple(rules)


def _contradicting_attribute(rule: ApproverRule, other: ApproverRule) -> str | None:
    """Return an attribute for which two rules that share requests allow no common value, or ``None``."""
    selections = [(getattr(rule, name), getattr(other, name)) for name in ("tools", "effects", "agents", "risks")]
    is_certain = all(a is None or b is None or not set(a).isdisjoint(b) for a, b in selections)
    if not is_certain or rule.escalate_to is not None or other.escalate_to is not None:
        return None
    for name in sorted(rule.attributes.keys() & other.attributes.keys()):
        if {*map(attribute_json, rule.attributes[name])}.isdisjoint(map(attribute_json, other.attributes[name])):
            return name
    return None


def _matches(patterns: tuple[str, ...] | None, names: frozenset[str]) -> bool:
    return patterns is None or any(fnmatchcase(name, pattern) for name in names for pattern in patterns)
