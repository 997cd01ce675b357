"""An agent of LangChain with governed tools, on a model that follows a script: no key, no network."""

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from capset import Agent, Decision, Kernel, Principal, Request, allow, ask, policy, tool
from capset.definitions.governance.approvals import Answer
from capset_frameworks.langchain import CapsetMiddleware


@policy
async def large_sums(request: Request) -> Decision:
    """Ask for an approval of every sum above 100."""
    return ask("more than 100") if request.arguments and request.arguments["sum"] > 100 else allow()


@tool(effect="external", policies=[large_sums])
async def pay(sum: int) -> str:
    """Pay a sum."""
    return f"paid {sum}"


class ScriptedModel(GenericFakeChatModel):
    """Says what it is given, with any tools."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self.bind()


def call(sum: int, key: str) -> ToolCall:
    """Have the scripted model call ``pay``."""
    return ToolCall(type="tool_call", name="pay", args={"sum": sum}, id=key)


async def main() -> None:
    # A real model would be named instead: create_agent("openai:gpt-5.4", …).
    script = [AIMessage("", tool_calls=[call(7, "a"), call(500, "b")]), AIMessage("Both are paid.")]
    model = ScriptedModel(messages=iter(script))
    clerk = Agent("clerk", system_prompt="Pay only what was ordered.", tools=[pay])
    async with Kernel(store="sqlite:///capset.db") as kernel, kernel.open(clerk, principal=Principal("ada")) as session:
        middleware = CapsetMiddleware(session, defers=True)
        agent = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
        thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
        start: Any = {"messages": [("user", "Pay 7 for the paper and 500 for the desk.")]}
        result = await agent.ainvoke(start, thread)
        answers: dict[str, Any] = {}
        for interrupt in result["__interrupt__"]:
            print("somebody has to approve", interrupt.value["name"], interrupt.value["args"])
            await kernel.approvals.decide(interrupt.value["approval"], Answer(approved=True), by=Principal("boss"))
            answers[interrupt.id] = {"type": "approve"}
        result = await agent.ainvoke(Command(resume=answers), thread)
        for message in result["messages"]:
            if isinstance(message, ToolMessage):
                print("the model read:", message.text)
        print(result["messages"][-1].text)
        print("chain holds:", (await kernel.audit.verify()).ok)


asyncio.run(main())
