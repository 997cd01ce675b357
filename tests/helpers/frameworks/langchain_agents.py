"""LangChain's agents with a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from langchain.agents import create_agent
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, SystemMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Interrupt
from pydantic import Field

from capset_frameworks.langchain import LANGCHAIN, CapsetMiddleware, load_tools
from tests.helpers.frameworks.driver import Call, Conversation, Driver, HeldTool, Read, Shown


class ScriptedChat(BaseChatModel):
    """A chat model that gives these messages, and keeps what it was shown."""

    messages: list[AIMessage]
    shown: list[Shown] = Field(default_factory=list[Shown])

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[Any, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        tools: Sequence[dict[str, Any]] = (),
        **kwargs: Any,
    ) -> ChatResult:
        system = next((message.text for message in messages if isinstance(message, SystemMessage)), "")
        functions = [tool["function"] for tool in tools]
        self.shown.append(Shown(system, {function["name"]: function["parameters"] for function in functions}))
        return ChatResult(generations=[ChatGeneration(message=self.messages.pop(0))])


class LangChainDriver(Driver):
    framework = LANGCHAIN

    async def run(self, *steps: Sequence[Call]) -> Conversation:
        self.model = scripted(*steps)
        middleware = CapsetMiddleware(self.session, defers=self.defers)
        self.agent = create_agent(self.model, middleware=[middleware], checkpointer=InMemorySaver())
        self.waiting: list[Interrupt] = []
        return await self._go(GO)

    async def resume(self) -> Conversation:
        return await self._go(Command(resume={interrupt.id: {"type": "approve"} for interrupt in self.waiting}))

    async def _go(self, agent_input: Any) -> Conversation:
        self._run = uuid4()
        config: RunnableConfig = {"run_id": self._run, **THREAD}
        stream: Any = self.agent.astream(agent_input, config, stream_mode="custom")
        async for event in stream:
            self.events.append((event["data"]["fraction"], event["data"]["message"]))
        state = await self.agent.aget_state(config)
        self.messages: list[BaseMessage] = state.values["messages"]
        self.waiting = [*state.interrupts]
        ran = Conversation(self.model.shown, waiting=[interrupt.value["approval"] for interrupt in self.waiting])
        ran.read = [_read(message) for message in results(self.messages)]
        if not self.waiting:
            ran.output = self.messages[-1].text
        return ran

    async def take(self, name: str) -> HeldTool:
        (held_tool,) = [tool for tool in await load_tools(self.session) if tool.name == name]

        async def call(arguments: dict[str, Any], id: str) -> Read:
            return _read(await held_tool.ainvoke(ToolCall(type="tool_call", name=name, args=arguments, id=id)))

        return call

    async def run_id(self) -> str | None:
        return str(self._run)


GO: Any = {"messages": [("user", "go")]}
THREAD: RunnableConfig = {"configurable": {"thread_id": "t"}}


def scripted(*steps: Sequence[Call]) -> ScriptedChat:
    """Return a model that makes these calls, then says "done"."""
    return ScriptedChat(messages=[*(step(at, calls) for at, calls in enumerate(steps, 1)), AIMessage("done")])


def results(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    """Return the results among messages."""
    return [message for message in messages if isinstance(message, ToolMessage)]


def resume(answer: object) -> Any:
    """Return what resumes a run that waits for one answer."""
    return Command(resume=answer)


def step(at: int, calls: Sequence[Call]) -> AIMessage:
    """Return a step of the model as a provider's package reads it: arguments that are not a JSON object are apart."""
    message = AIMessage("")
    for place, (name, arguments) in enumerate(calls, 1):
        key = f"call-{at}-{place}"
        if isinstance(arguments, str):
            message.invalid_tool_calls.append(
                InvalidToolCall(type="invalid_tool_call", name=name, args=arguments, id=key, error="no JSON")
            )
        else:
            message.tool_calls.append(ToolCall(type="tool_call", name=name, args=arguments, id=key))
    return message


def _read(message: Any) -> Read:
    return Read(message.text, message.status == "error")
