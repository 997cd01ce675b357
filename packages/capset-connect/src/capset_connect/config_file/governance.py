"""Conversion of the governance of a file."""

from __future__ import annotations

from typing import Any

from capset.definitions.governance.approvers import ApproverRule
from capset.definitions.governance.limits import limit_of
from capset.definitions.governance.settings import Governance
from capset.errors import DefinitionError
from capset.kernel.governance.redaction import redactor_of
from capset.wire.allowances import AllowanceShape
from capset_connect.config_file.shapes import ApproverRuleShape


def governance_setting(name: str, value: Any) -> Any:  # of the member's type
    """Convert and validate one member of the governance. Raises ``DefinitionError``."""
    converted: Any = value
    if isinstance(value, AllowanceShape):
        converted = value.allowance()
    elif name == "approvers":
        return [
            _rule(number, rule) for number, rule in enumerate(value, 1)
        ]  # validated further together with the other members
    elif name == "refusals" and value is not None:
        converted = limit_of(value)
    Governance(**{name: converted})
    if name == "redact":
        redactor_of(converted)
    return converted


def _rule(number: int, shape: ApproverRuleShape) -> ApproverRule:
    try:
        return shape.rule()
    except DefinitionError as error:
        raise DefinitionError(f"number {number}: {error.message}", hint=error.hint) from None
