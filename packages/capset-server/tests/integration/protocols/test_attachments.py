"""Pictures and files in the messages of front ends: files of the session, and parts of the turn (spec 5, P95)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import BinaryContent, ModelMessage, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from capset_agents.runner import AgentRunner
from capset_server.protocols.attachments import Attachment
from tests.helpers.server.protocols.front_ends import run, run_input
from tests.helpers.server.support import Site, make_agent, problem, site

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(32))
BASE64 = b64encode(PNG).decode()
URL = f"data:image/png;base64,{BASE64}"
PART = {"type": "file", "mediaType": "image/png", "filename": "../a b.png", "url": URL}
NAMED = f"/attachments/{sha256(PNG).hexdigest()[:12]}/a_b.png"
UNNAMED = f"/attachments/{sha256(PNG).hexdigest()[:12]}/file.png"


@dataclass
class Viewer:
    """A server with an agent, and the prompts that its model got."""

    here: Site
    agent: str
    prompts: list[Any] = field(default_factory=list[Any])


@pytest.fixture
async def viewer(tmp_path: Path) -> AsyncGenerator[Viewer]:
    prompts: list[Any] = []

    async def look(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        prompts.extend(part.content for part in messages[-1].parts if isinstance(part, UserPromptPart))
        yield "Seen."

    runner = AgentRunner(FunctionModel(stream_function=look))
    async with site(store=f"sqlite:///{tmp_path / 'capset.db'}", generator=runner) as server:
        async with server.client() as ada:
            agent = (await make_agent(ada, "kit"))["id"]
        yield Viewer(server, agent, prompts)


def agui(*parts: dict[str, Any]) -> dict[str, Any]:
    """Return a run of AG-UI whose newest message has a text and these parts, and is followed by an activity."""
    content = [{"type": "text", "text": "look"}, *parts]
    activity = {"role": "activity", "activityType": "plan", "content": {"steps": []}}
    return run_input({"role": "assistant", "content": None}, {"role": "user", "content": content}, activity)


def ai_sdk(*parts: dict[str, Any]) -> dict[str, Any]:
    """Return a request of the AI SDK whose message has a text, these parts, and data that is for the page alone."""
    message_parts = [{"type": "text", "text": "look"}, {"type": "data-place", "data": {"at": 7}}, *parts]
    return {"id": "t", "messages": [{"id": "1", "role": "user", "parts": message_parts}]}


@pytest.mark.spec("P95", "R19")
@pytest.mark.parametrize(
    ("path", "body", "stored"),
    [
        ("ai-sdk", ai_sdk(PART), NAMED),
        (
            "ag-ui",
            agui({"type": "image", "source": {"type": "data", "value": BASE64, "mimeType": "image/png"}}),
            UNNAMED,
        ),
        ("ag-ui", agui({"type": "image", "source": {"type": "url", "value": URL}}), UNNAMED),
        ("ag-ui", agui({"type": "binary", "mimeType": "image/png", "data": BASE64, "filename": "a b.png"}), NAMED),
    ],
)
async def test_a_picture_is_a_file_of_the_session_and_seen_by_the_model(
    viewer: Viewer, path: str, body: dict[str, Any], stored: str
) -> None:
    async with viewer.here.client() as ada:
        await run(ada, viewer.agent, body, path)
        (session,) = (await ada.get("/v1/sessions")).json()["items"]
        assert (await ada.get(f"/v1/sessions/{session['id']}/files{stored}")).content == PNG
        (act,) = (await ada.get("/v1/audit", params={"act": "file.write"})).json()["items"]
        assert (act["principal"], act["session"]) == ("ada", session["id"])
    (prompt,) = viewer.prompts
    text, picture = prompt
    assert text == "look"
    assert isinstance(picture, BinaryContent)
    assert (picture.data, picture.media_type) == (PNG, "image/png")


@pytest.mark.spec("P95", "R19")
async def test_a_text_is_read_by_the_model_and_what_is_passed_over_leaves_a_message_as_it_was(viewer: Viewer) -> None:
    text = {"type": "file", "mediaType": "text/plain", "filename": "a.txt", "url": "data:text/plain,Gr%C3%BC%C3%9Fe"}
    async with viewer.here.client() as ada:
        await run(ada, viewer.agent, ai_sdk(text), "ai-sdk")
        await run(ada, viewer.agent, ai_sdk(), "ai-sdk")
    (with_file, plain) = viewer.prompts
    assert with_file[0] == "look"
    assert with_file[1].endswith("/a.txt:\nGrüße")
    assert plain == "look"


@pytest.mark.spec("P95", "T51", "T95")
@pytest.mark.parametrize("permissions", [(), ("session_files:read",), ("session_files:write",)])
async def test_it_needs_the_permissions_to_write_and_read_files(viewer: Viewer, permissions: tuple[str, ...]) -> None:
    await viewer.here.key("eve", permissions=permissions)
    async with viewer.here.client("eve") as eve:
        refused = problem(
            await eve.post(f"/v1/agents/{viewer.agent}/ai-sdk", json=ai_sdk(PART)), 403, "permission_denied"
        )
        assert "lacks the permission session_files:" in refused["detail"]
    assert viewer.prompts == []


@pytest.mark.spec("P95", "T95")
@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({**PART, "url": "https://a.example/a.png"}, "must be a data: URL"),
        ({**PART, "url": "file:///etc/passwd"}, "must be a data: URL"),
        ({**PART, "url": "data:image/png;base64,@@"}, "not valid base64"),
        ({**PART, "url": None}, "must be a data: URL"),
    ],
)
async def test_what_has_no_content_is_refused(viewer: Viewer, part: dict[str, Any], message: str) -> None:
    async with viewer.here.client() as ada:
        for parts in ((part,), (PART, part)):
            answer = await ada.post(f"/v1/agents/{viewer.agent}/ai-sdk", json=ai_sdk(*parts))
            assert message in problem(answer, 422, "invalid_arguments")["detail"]
        many = await ada.post(f"/v1/agents/{viewer.agent}/ai-sdk", json=ai_sdk(*[PART] * 33))
        assert "at most 32 files" in problem(many, 422, "invalid_arguments")["detail"]
    assert viewer.prompts == []


@pytest.mark.spec("P95", "T95")
@pytest.mark.parametrize(
    ("name", "media_type", "stored"),
    [
        ("a.png", "image/png", "a.png"),
        ("C:\\pictures\\a.png", "image/png", "a.png"),
        ("../../etc/passwd", "", "passwd"),
        ("..", "image/png", "file.png"),
        ("", "text/csv; charset=utf-8", "file.csv"),
        ("", "nonsense", "file"),
        ("a\nb\0c.txt", "", "a_b_c.txt"),
        ("x" * 200 + ".png", "", "x" * 96 + ".png"),
    ],
)
def test_a_name_leads_nowhere_else(name: str, media_type: str, stored: str) -> None:
    attachment = Attachment.of(name, media_type, b"a")
    assert attachment.path == f"/attachments/{sha256(b'a').hexdigest()[:12]}/{stored}"
