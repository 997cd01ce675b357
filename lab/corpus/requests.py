"""Calls of sampled operations of public documents: what a server gets, beside what the document wants."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

from capset import Agent, Kernel, Principal
from capset.definitions.tools.definition import AnyTool
from capset.errors import CapsetError, InvalidArguments
from capset.kernel.call.session import Session
from capset_connect.openapi import OpenApi, OpenApiClient, open_apis
from capset_connect.pins.offers import Offer
from lab.corpus import documents
from lab.corpus.expected import Place, Unsendable, differences
from lab.corpus.loading import MOST_AT_ONCE, NoSecrets, kind_of
from lab.corpus.nodes import Node, Operation, elements, is_list, is_object, members, operations_of
from lab.corpus.recording import RecordingServer, recording
from lab.corpus.samples import PLAIN_WORDS, WORDS, NoSample, Sampler

SEED: Final = 47
DOCUMENTS: Final = 60
OPERATIONS: Final = 500
_TRIES: Final = 20
_CANDIDATES: Final = 3
"""How many operations are chosen for each that is compared: some have no sample."""
_BASE: Final = "/base"
_SCHEME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_PATH_WORDS: Final = tuple(word for word in WORDS if "/" not in word)
"""Slashes in arguments of paths are refused."""

Verdict = Literal["same", "wrong", "refused", "passed over"]
"""``refused`` by capset, for a value that its place cannot take; ``passed over`` for want of a sample or a rule."""


@dataclass(slots=True)
class Compared:
    """What became of the sampled operations of some documents."""

    documents: int = 0
    verdicts: Counter[Verdict] = field(default_factory=Counter[Verdict])
    reasons: Counter[str] = field(default_factory=Counter[str])
    """Why operations were refused or passed over."""
    wrong: list[str] = field(default_factory=list[str])

    @property
    def calls(self) -> int:
        """The number of requests that were compared."""
        return self.verdicts["same"] + self.verdicts["wrong"]


def run() -> bool:
    """Compare requests, print what differs, and return whether every bound is met."""
    compared = asyncio.run(compare_all(documents.fetch(), Random(SEED)))
    return report(compared)


def report(compared: Compared) -> bool:
    """Print what became of the operations, and return whether every bound is met."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(compared.verdicts.items()))
    print(f"{compared.calls} requests of {compared.documents} documents: {counts}")
    for reason, count in compared.reasons.most_common():
        print(f"{count:8,}  {reason}")
    for text in compared.wrong:
        print(f"wrong: {text}")
    bounds = {
        f"at least {OPERATIONS} requests ({compared.calls})": compared.calls >= OPERATIONS,
        f"at least {DOCUMENTS} documents ({compared.documents})": compared.documents >= DOCUMENTS,
        f"no request is wrong ({len(compared.wrong)})": not compared.wrong,
    }
    for bound, is_met in bounds.items():
        print(f"{'met   ' if is_met else 'MISSED'}  {bound}")
    return all(bounds.values())


async def compare_all(
    paths: Sequence[Path], random: Random, most_documents: int = DOCUMENTS, most_operations: int = OPERATIONS
) -> Compared:
    """Compare so many operations of so many documents, which are chosen at random."""
    compared = Compared()
    with recording() as server:
        for path in random.sample(list(paths), len(paths)):
            at = compared.documents
            if at == most_documents:
                break
            quota = most_operations * (at + 1) // most_documents - most_operations * at // most_documents
            compared.documents += await _compare_document(path, quota, random, server, compared) >= quota
    return compared


async def _compare_document(path: Path, quota: int, random: Random, server: RecordingServer, compared: Compared) -> int:
    """Compare up to so many operations of a document, and return how many were compared."""
    document = members(json.loads(path.read_bytes()))
    operations = {operation.key: operation for operation in operations_of(document)}
    if not quota <= len(operations) <= MOST_AT_ONCE:
        return 0
    schemes = members(members(document.get("components")).get("securitySchemes"))
    credentials = {name: f"ada:token-{at}" for at, name in enumerate(schemes) if _SCHEME.fullmatch(name)}
    api: dict[str, Any] = {
        "name": "api",
        "document": str(path),
        "url": f"http://{server.host}{_BASE}",
        "internal": [server.host],
        "credentials": credentials,
        "trust_first_use": True,
    }
    try:
        offers = await OpenApiClient(OpenApi(**api), NoSecrets()).offers()
    except CapsetError:  # that it cannot be loaded is counted elsewhere
        return 0
    usable = [offer for offer in offers if not offer.problems and offer.name in operations]
    chosen = random.sample(usable, min(len(usable), quota * _CANDIDATES))
    if len(chosen) < quota:
        return 0
    source, before = OpenApi(**api, operations=[offer.name for offer in chosen]), compared.calls
    async with (
        Kernel(store="memory://", secrets=NoSecrets()) as kernel,
        open_apis(kernel, [source]) as (capability,),
        kernel.open(Agent("caller", uses=[capability]), principal=Principal("ada")) as session,
    ):
        tools = {tool.name: tool for tool in capability.every_tool}
        for offer in chosen:
            if compared.calls - before == quota:
                break
            operation = operations[offer.name]
            call = _OperationCall(document, operation, offer, credentials)
            verdict, reason = await call.compare(session, tools[source.tool_name(offer.name)], random, server)
            compared.verdicts[verdict] += 1
            if verdict == "wrong":
                compared.wrong.append(f"{path.name}: {operation.method} {operation.path}: {reason}")
            elif verdict != "same":
                compared.reasons[f"{verdict}: {kind_of(reason)}"] += 1
    return compared.calls - before


@dataclass(frozen=True, slots=True)
class _OperationCall:
    """An operation that is called once, with sampled arguments."""

    document: Node
    operation: Operation
    offer: Offer
    credentials: Mapping[str, str]

    async def compare(
        self, session: Session, tool: AnyTool, random: Random, server: RecordingServer
    ) -> tuple[Verdict, str]:
        """Call the tool with arguments that fit, and compare the request; ``tool`` is one of the session's."""
        places = members(self.offer.shape["arguments"])
        refusal: str | None = None
        for _ in range(_TRIES):
            server.take()
            try:
                arguments = self._sampled(places, random)
                await session.call(tool, **arguments)
            except (NoSample, InvalidArguments):
                continue
            except CapsetError as error:
                if error.code != "argument_refused":
                    return "wrong", f"{error.code}: {error.message}"
                refusal = error.message
                continue
            return self._verdict(places, arguments, server)
        return ("passed over", "no sample fits its schema") if refusal is None else ("refused", refusal)

    def _sampled(self, places: Node, random: Random) -> dict[str, Any]:
        """Return arguments by their names in the tool's schema. Raises ``NoSample``."""
        schema = members(self.offer.shape["inputSchema"])
        sampler = Sampler(schema, random, {"base64": "aGVsbG8="})
        required = elements(schema.get("required"))
        arguments: dict[str, Any] = {}
        for name, part in members(schema.get("properties")).items():
            if name not in required and random.random() < 0.4:
                continue
            try:
                arguments[name] = sampler.value(part, _words(members(places[name])))
            except NoSample:
                if name in required:
                    raise
        return arguments

    def _verdict(self, places: Node, arguments: Mapping[str, Any], server: RecordingServer) -> tuple[Verdict, str]:
        received = server.take()
        if len(received) != 1:
            return "wrong", f"{len(received)} requests came"
        values: dict[Place, Any] = {}
        body = None
        for name, value in arguments.items():
            place = members(places[name])
            if place["in"] == "body":
                body = _files_as_bytes(value)
            elif value is not None:
                where, parameter = str(place["in"]), str(place["name"])
                values[where, parameter.lower() if where == "header" else parameter] = value
        try:
            problems = differences(self.document, self.operation, _BASE, values, body, self.credentials, received[0])
        except Unsendable as error:
            return "passed over", f"the rules have no form for {error}"
        return ("wrong", "; ".join(problems)) if problems else ("same", "")


def _words(place: Node) -> Sequence[str]:
    """Return the texts that a place can take."""
    match place["in"]:
        case "path":
            return _PATH_WORDS
        case "header":
            return PLAIN_WORDS
        case _:
            return WORDS


def _files_as_bytes(value: Any) -> Any:
    """Return a body with the bytes of files in the place of the objects by which arguments name them."""
    if is_list(value):
        return [_files_as_bytes(item) for item in elements(value)]
    if not is_object(value):
        return value
    node = members(value)
    if "base64" in node and node.keys() <= {"base64", "name"}:
        return base64.b64decode(node["base64"])
    return {key: _files_as_bytes(item) for key, item in node.items()}
