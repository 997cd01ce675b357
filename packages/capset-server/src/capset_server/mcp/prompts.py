"""``prompts/list`` and ``prompts/get``: instructions of capabilities, and tools that are offered as prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    TextContent,
)

from capset.composition.installation import InstalledTool
from capset.definitions.tools.mcp_offers import McpPrompt
from capset.errors import unknown
from capset.evaluation.snapshot.snapshot import Snapshot
from capset_server.mcp.calls import Report, data_of, hashes, meta_of, question_in, run
from capset_server.mcp.contents import show
from capset_server.mcp.exchanges import Exchange
from capset_server.mcp.offers import freshness, parameters_of, prompts_of
from capset_server.mcp.questions import McpClient

INSTRUCTIONS: Final = ".instructions"
"""The suffix of the name of a prompt with a capability's instructions; no tool's name has a dot."""


def list_prompts(snapshot: Snapshot) -> ListPromptsResult:
    """Return the prompts in play, all on one page: those of tools first."""
    prompts = [_offered(offer, installed) for offer, installed in prompts_of(snapshot)]
    titles = {capability.name: capability.title for capability in snapshot.composition.capabilities}
    prompts += [
        Prompt(
            name=f"{name}{INSTRUCTIONS}",
            title=f"Instructions of {titles.get(name, name)}",
            description=f"What a model is told about the capability {name}.",
        )
        for name in instructions_of(snapshot)
    ]
    return ListPromptsResult(prompts=prompts, _meta=hashes(snapshot), **freshness(snapshot))


async def get_prompt(
    exchange: Exchange, params: GetPromptRequestParams, report: Report, client: McpClient
) -> GetPromptResult | InputRequiredResult:
    """Return a prompt, calling its tool if it has one. Raises ``MCPError`` if it is unknown, or if the call fails."""
    snapshot = await exchange.session.current()
    offered = {installed.name: installed for _, installed in prompts_of(snapshot)}
    if (installed := offered.get(params.name)) is not None:
        ended = await run(exchange, installed.name, params.arguments or {}, report, client)
        if (question := question_in(ended, client)) is not None:
            return question
        content = ended.messages.result.content
        rendered = await show(ended.session, ended.messages.record, content, data_of(ended))
        messages = [PromptMessage(role="user", content=block) for block in rendered.blocks]
        return GetPromptResult(description=installed.tool.description, messages=messages, _meta=meta_of(ended))
    texts = instructions_of(snapshot)
    name = params.name.removesuffix(INSTRUCTIONS)
    if name == params.name or name not in texts:
        names = [*offered, *(f"{capability}{INSTRUCTIONS}" for capability in texts)]
        raise MCPError(INVALID_PARAMS, f"{unknown('prompt', params.name, names)}")
    if params.arguments:
        raise MCPError(INVALID_PARAMS, f"the prompt {params.name!r} takes no arguments: leave them out")
    message = PromptMessage(role="user", content=TextContent(text=texts[name]))
    return GetPromptResult(messages=[message], _meta=hashes(snapshot))


def instructions_of(snapshot: Snapshot) -> Mapping[str, str]:
    """Return the instructions of each capability that has any, by its name."""
    by_capability: dict[str, list[str]] = {}
    for instruction in snapshot.composition.merged.instructions:
        if instruction.source.capability is not None:
            by_capability.setdefault(instruction.source.capability, []).append(instruction.value)
    return {name: "\n\n".join(texts) for name, texts in by_capability.items()}


def _offered(offer: McpPrompt, installed: InstalledTool) -> Prompt:
    required = installed.tool.arguments.json_schema.get("required", ())
    arguments = [
        PromptArgument(name=name, description=schema.get("description"), required=name in required)
        for name, schema in parameters_of(installed).items()
    ]
    return Prompt(
        name=installed.name,
        title=offer.title or installed.tool.title,
        description=installed.tool.description,
        arguments=arguments,
    )
