"""The stored form of an evaluation, sufficient to prove its hashes, compare it, and restore its tools (spec 2, F27)."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from capset.definitions.principals import Attributes, PrincipalKind
from capset.errors import DefinitionError
from capset.evaluation.policies import PolicyMode
from capset.fingerprint.canonical import PROFILE
from capset.fingerprint.links import CapabilityLink, Hash

SCHEMA_VERSION: Final = "1"


class _StoredModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class PolicyResult(_StoredModel):
    """The result of one policy when the snapshot was evaluated."""

    id: str
    kind: Literal["allow", "ask", "deny"]
    reason: str | None = None


class PolicyPart(_StoredModel):
    """The policy results in traversal order, and the mode."""

    mode: PolicyMode = "authoritative"
    results: tuple[PolicyResult, ...] = ()


class WirePayload(_StoredModel):
    """A name, a hash, and the canonical payload that the hash covers, as JSON data."""

    name: str
    hash: Hash
    payload: Mapping[str, Any]


class WireTool(WirePayload):
    """A tool in play. ``policies`` has the ids of all policies that apply to it here, including those from outside."""

    policies: tuple[str, ...] = ()


class StaticPart(_StoredModel):
    """The definition: the payload of ``static_hash``, and the payloads that it references, each with its hash."""

    hash: Hash
    payload: Mapping[str, Any]
    parts: tuple[WirePayload, ...] = ()


def _is_empty(value: Sized | None) -> bool:
    """Whether to omit a member, as in envelopes from before there were attributes."""
    return not value


_Attributes = Annotated[Mapping[str, Any], AfterValidator(lambda attributes: dict(Attributes(attributes)))]


class WirePrincipal(_StoredModel):
    """The acting principal with its permissions, and the attributes of it and of the principals that it acts for.

    ``dropped`` has the paths of attributes that are not stored, such as ``attributes.api_key``: those with
    secret-looking names, and those that the host's patterns match.
    """

    id: str
    kind: PrincipalKind
    org: str | None = None
    permissions: tuple[str, ...] = ()
    on_behalf_of: str | None = Field(default=None, exclude_if=_is_empty)
    attributes: _Attributes = Field(default_factory=dict[str, Any], exclude_if=_is_empty)
    on_behalf_of_attributes: tuple[_Attributes, ...] = Field(default=(), exclude_if=_is_empty)
    dropped: tuple[str, ...] = Field(default=(), exclude_if=_is_empty)


class WireContext(_StoredModel):
    """The toolkit context. ``env`` has its JSON data, and ``dropped`` the paths of all other values."""

    principal: WirePrincipal | None = None
    namespace: str | None = None
    agent_id: str | None = None
    agent_name: str | None = None
    env: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    dropped: tuple[str, ...] = ()


class RuntimePart(_StoredModel):
    """What was in play: the link, the tools with their payloads, and the model's prompt and instructions."""

    link: CapabilityLink
    tools: tuple[WireTool, ...]
    system_prompt: str = ""
    instructions: tuple[str, ...] = ()
    toolkit_context: WireContext = Field(default_factory=WireContext)


class SnapshotEnvelope(_StoredModel):
    """One evaluation as JSON data, ``schema_version`` "1".

    ``static`` is present if it was requested. ``context`` is the host's session context: stored, never hashed.
    """

    schema_version: Literal["1"] = SCHEMA_VERSION
    profile: str = PROFILE
    static: StaticPart | None = None
    policy: PolicyPart = Field(default_factory=PolicyPart)
    runtime: RuntimePart
    context: Mapping[str, Any] | None = None

    @property
    def link(self) -> CapabilityLink:
        """The link of the evaluation."""
        return self.runtime.link

    def to_json(self) -> str:
        """Return the envelope as JSON text, for storage."""
        return self.model_dump_json()


def read_envelope(text: str | bytes) -> SnapshotEnvelope:
    """Parse an envelope from JSON text. Raises ``DefinitionError``, listing up to five problems."""
    try:
        return SnapshotEnvelope.model_validate_json(text)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or '$'}: {problem['msg']}" for problem in error.errors()[:5]
        )
        raise DefinitionError(
            f"not a snapshot envelope of schema version {SCHEMA_VERSION!r}: {problems}",
            hint="capture() makes an envelope; store the text of its to_json()",
        ) from None
