"""``stateless_todo_list``: a task list that exists only in the conversation (spec 5, P29)."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from pydantic import Field, StringConstraints
from typing_extensions import TypedDict

from capset import Capability, tool

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Todo(TypedDict):
    content: Annotated[Text, Field(description="What is to be done, as an order: 'Run the tests'.")]
    activeForm: Annotated[Text, Field(description="The same while it is being done: 'Running the tests'.")]
    status: Annotated[
        Literal["pending", "in_progress", "completed"],
        Field(description="pending: not begun; in_progress: being worked on now; completed: wholly done."),
    ]


class TodoCounts(TypedDict):
    total: int
    pending: int
    in_progress: int
    completed: int


class TodoList(TypedDict):
    success: Annotated[Literal[True], Field(description="The list was accepted.")]
    todos: Annotated[list[Todo], Field(description="The complete list as it now stands.")]
    counts: Annotated[TodoCounts, Field(description="How many tasks there are, in all and by status.")]
    warnings: Annotated[list[str], Field(description="What to set right in the next call; empty if nothing.")]


@tool(effect="read", permissions=())
async def write_todos(todos: list[Todo]) -> TodoList:
    """Write down the complete list of tasks: each call replaces the whole list, and nothing else remembers it.

    Use it to plan work of three or more steps, when a task begins or ends, and when new tasks turn up. An empty
    list clears it.

    Args:
        todos: All tasks in their order, the finished ones too.
    """
    by_status = Counter(todo["status"] for todo in todos)
    counts = TodoCounts(
        total=len(todos),
        pending=by_status["pending"],
        in_progress=by_status["in_progress"],
        completed=by_status["completed"],
    )
    return TodoList(success=True, todos=todos, counts=counts, warnings=warnings(counts))


def warnings(counts: TodoCounts) -> list[str]:
    """Return a warning unless exactly one task is in progress while there is work left."""
    if counts["in_progress"] > 1:
        return [f"{counts['in_progress']} tasks are in_progress; keep exactly one, and set the others to pending."]
    if counts["pending"] and not counts["in_progress"]:
        return ["No task is in_progress although some are pending; set the one that you do next to in_progress."]
    return []


INSTRUCTIONS = """\
Keep track of work with `write_todos`. The list exists only in this conversation: each call carries all tasks, and \
what you leave out is gone.

Write a list when
- the work takes three or more separate steps, or needs thought about their order;
- the user names several things to do, or hands you a list;
- new instructions arrive: write down what they ask for at once, before you act on them.
Leave it out for a single simple step, or when a question only needs an answer.

Give each task both forms: `content` as an order ("Fix the date parser") and `activeForm` as what is going on \
("Fixing the date parser").

Keep the list true while you work
- Set a task to `in_progress` before you begin it, and have exactly one in progress at any time.
- Set it to `completed` as soon as it is done, each task by itself; never save several up.
- Call a task completed only if nothing of it is left: no failing test, no error, no part skipped. If you are \
stuck, leave it in progress and add a task for what stands in its way.
- Add follow-up tasks when you find them, and drop tasks that have lost their point.
- Read the `warnings` of each result, and set right what they name."""

stateless_todo_list = Capability(
    "stateless_todo_list",
    title="Task Management",
    description="Lets an agent plan and track work of several steps as a task list within the conversation.",
    icon="list-checks",
    category="Productivity",
    instructions=INSTRUCTIONS,
    tools=[write_todos],
)
