"""``capset run`` and ``capset chat``: turns of agents on the command line, whose model follows a script."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.cli.conversation.scripted import SHELF, call, events, script
from tests.helpers.cli.support import Command, clean_environment, install
from tests.waiting import wait_until


@pytest.fixture
def keeper(tmp_path: Path) -> Command:
    """Give the command where an agent with a shelf is installed."""
    packages = tmp_path / "packages"
    packages.mkdir()
    install(packages, "shelf", SHELF, capabilities={"shelf": "shelf:shelf"}, agents={"keeper": "shelf:keeper"})
    return Command(tmp_path, clean_environment(tmp_path, PYTHONPATH=str(packages)))


@pytest.mark.spec("R11", "R12")
def test_an_agent_does_a_task(keeper: Command) -> None:
    model = script(keeper.folder, {"text": "I put it there."} | call("put", text="milk"), {"text": "It is done."})
    done = keeper("run", "keeper", "keep milk", "--model", model)
    assert done.code == 0, done.err
    assert done.out.splitlines() == ["I put it there.", "It is done."]
    assert '✓ put {"text": "milk"} → kept milk' in done.said
    assert (keeper.folder / "shelf.txt").read_text() == "milk\n"
    records = keeper("audit", "query", "--json").json["items"]
    assert [(record["tool"], record["agent"], record["outcome"]) for record in records] == [
        ("put", "keeper", "succeeded")
    ]


def test_a_configuration_file_has_its_agent(keeper: Command) -> None:
    action = {"name": "look", "description": "Look.", "handler": "./look.py", "effect": "read", "permissions": []}
    (keeper.folder / "look.py").write_text("def handler(params):\n    return 'seen'\n")
    (keeper.folder / "capset.yaml").write_text(json.dumps({"name": "clerk", "actions": [action]}))
    model = script(keeper.folder, {"calls": [{"tool": "look", "arguments": {}}]}, {"text": "Done."})
    done = keeper("run", "capset.yaml", "look around", "--model", model)
    assert (done.code, done.out.strip()) == (0, "Done."), done.err
    missing = keeper("run", "capset.yaml", "--model", model)
    assert (missing.code, "say what the agent is to do" in missing.err) == (2, True)


def test_the_model_that_a_file_names_runs_its_agent(keeper: Command) -> None:
    (keeper.folder / "desk").mkdir()
    model = script(keeper.folder / "desk", {"text": "By the file's script."})
    named = f"script:{Path(model.removeprefix('script:')).name}"
    (keeper.folder / "desk" / "capset.yaml").write_text(json.dumps({"name": "clerk", "model": named}))
    done = keeper("run", "desk/capset.yaml", "go")
    assert (done.code, done.out.strip()) == (0, "By the file's script."), done.err
    other = script(keeper.folder, {"text": "By another script."})
    done = keeper("run", "desk/capset.yaml", "go", "--model", other)
    assert (done.code, done.out.strip()) == (0, "By another script."), done.err
    (keeper.folder / "desk" / "capset.yaml").write_text(json.dumps({"name": "clerk", "model": "script:none.yaml"}))
    missing = keeper("run", "desk/capset.yaml", "go")
    assert (missing.code, "none.yaml" in missing.said) == (2, True)


@pytest.mark.realtime
def test_a_session_goes_on_with_the_model_that_its_file_names(keeper: Command) -> None:
    script(keeper.folder, call("burn", text="letters"), {"text": "Burnt."})
    (keeper.folder / "clerk.yaml").write_text("{name: clerk, model: 'script:script.json', capabilities: [shelf]}")
    waits = keeper("run", "clerk.yaml", "burn them", "--no-wait")
    assert waits.code == 3, waits.err
    (request,) = keeper("approvals", "list", "--json").json["items"]
    assert keeper("approvals", "approve", request["id"], "--principal", "boss").code == 0
    (session,) = keeper("sessions", "list", "--json").json["items"]
    done = keeper("run", "--session", session["id"])
    assert (done.code, done.out.strip()) == (0, "Burnt."), done.err


@pytest.mark.realtime
@pytest.mark.spec("R25")
def test_an_agent_of_a_file_has_others_work_and_waits_for_them(keeper: Command) -> None:
    """The session goes on without the files, and with what they said."""
    (keeper.folder / "helper.yaml").write_text("{name: helper, description: Burns., capabilities: [shelf]}")
    (keeper.folder / "head.yaml").write_text("{name: head, agents: [helper.yaml]}")
    steps = {
        "head": [call("helper", input="burn it"), {"text": "All done."}],
        "helper": [call("put", text="milk"), call("burn", text="letters"), {"text": "Burnt."}],
    }
    (keeper.folder / "script.json").write_text(json.dumps({"agents": steps}), encoding="utf-8")
    model = ("--model", f"script:{keeper.folder / 'script.json'}")
    first = keeper("run", "head.yaml", "go", *model, "--no-wait")
    assert first.code == 3, first.said
    for name in ("helper.yaml", "head.yaml"):
        (keeper.folder / name).unlink()
    session = keeper("sessions", "list", "--json").json["items"][0]["id"]
    done = keeper("run", "--session", session, *model, "--approver", "eve", "--wait", stdin="y\n")
    assert (done.code, done.out) == (0, "All done.\n"), done.said
    assert (keeper.folder / "shelf.txt").read_text() == "milk\nburnt letters\n"


@pytest.mark.spec("R24")
@pytest.mark.parametrize("source", ["option", "variable", "file"])
def test_what_the_agents_of_a_principal_use_is_limited_from_run_to_run(keeper: Command, source: str) -> None:
    model = script(keeper.folder, call("put", text="milk"), {"text": "Done."})
    options = ("--usage-limit", "steps=3/1h") if source == "option" else ()
    if source == "variable":
        keeper = Command(keeper.folder, {**keeper.environ, "CAPSET_USAGE_LIMIT": "steps=3/1h"})
    elif source == "file":
        (keeper.folder / "capset.toml").write_text('[allowance]\nusage = ["steps=3/1h"]\n')
    assert keeper("run", "keeper", "keep milk", "--model", model, *options).code == 0
    done = keeper("run", "keeper", "keep milk", "--model", model, *options)
    assert done.code == 3, done.said
    assert "this principal may use 3 steps within 1h, and has used 3." in done.said
    assert (keeper.folder / "shelf.txt").read_text() == "milk\nmilk\n"


@pytest.mark.spec("R15")
def test_a_conversation_is_forked_and_taken_back(keeper: Command) -> None:
    model = script(keeper.folder, {"text": "One."}, {"text": "Two."}, {"text": "Three."})
    first = events(keeper("run", "keeper", "a", "--model", model, "--json"))
    session = keeper("sessions", "list", "--json").json["items"][0]["id"]
    second = events(keeper("run", "--session", session, "b", "--model", model, "--json"))
    turns = [first[-1]["turn"], second[-1]["turn"]]

    forked = keeper("sessions", "fork", session, "--turn", turns[0], "--json")
    assert forked.code == 0, forked.err
    other = forked.json["id"]
    assert keeper("run", "--session", other, "c", "--model", model).out.strip() == "Two."
    assert keeper("sessions", "rewind", session, turns[1], "--json").json == {"removed": 2}
    assert keeper("run", "--session", session, "d", "--model", model).out.strip() == "Two."
    acts = keeper("audit", "export").out
    assert '"session.rewind"' in acts
    unknown = keeper("sessions", "rewind", session, "nothing")
    assert unknown.code == 2
    assert "no messages of a turn" in unknown.err


def test_programs_read_one_event_a_line(keeper: Command) -> None:
    done = keeper("run", "keeper", "hello", "--model", script(keeper.folder, {"text": "Hello."}), "--json")
    assert done.code == 0
    assert [event["type"] for event in events(done)] == ["turn.started", "text.delta", "usage", "turn.ended"]
    assert events(done)[-1]["data"] == {"output": "Hello."}
    assert done.err == ""


def test_a_task_that_waits_for_an_approval_goes_on_later(keeper: Command) -> None:
    """A principal cannot approve its own request; after the approval the turn goes on, and the session with it."""
    model = script(keeper.folder, call("burn", text="letters"), {"text": "Burnt."}, {"text": "As I said."})
    done = keeper("run", "keeper", "burn the letters", "--model", model, "--json")
    assert done.code == 3
    requested, suspended = events(done)[-2:]
    assert suspended["type"] == "turn.suspended"
    assert requested["data"]["arguments"] == {"text": "letters"}
    (approval,) = suspended["data"]["approvals"]
    session = keeper("sessions", "list", "--json").json["items"][0]["id"]
    refused = keeper("run", "--session", session, "something else", "--model", model)
    assert refused.code == 2, refused.err
    assert approval in refused.said
    assert keeper("approvals", "approve", approval).code == 3
    assert keeper("approvals", "approve", approval, "--principal", "eve").code == 0
    done = keeper("run", "--session", session, "--model", model)
    assert (done.code, done.out) == (0, "Burnt.\n"), done.err
    assert (keeper.folder / "shelf.txt").read_text() == "burnt letters\n"
    repeated = keeper("run", "--session", session, "--model", model)
    assert (repeated.code, repeated.out) == (0, "Burnt.\n"), (
        "the end of a turn that another process went on with is shown"
    )
    assert (keeper.folder / "shelf.txt").read_text() == "burnt letters\n"
    done = keeper("run", "--session", session, "what did you do?", "--model", model)
    assert (done.code, done.out) == (0, "As I said.\n"), done.err


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("answers", "content", "output"),
    [
        ("y\n", "burnt letters\n", "Done."),
        ('e\nno\n{"text": "ashes"}\n', None, "Done."),
        ('e\n{"text": "ashes"}\n', "burnt ashes\n", "Done."),
        ("n\nthey are dear\n", None, "They are dear, I see."),
    ],
)
def test_a_second_person_decides_on_the_spot(keeper: Command, answers: str, content: str | None, output: str) -> None:
    """What is no JSON is asked for again; a rejection is read by the model with its reason."""
    dear = {"when": {"contains": "they are dear"}, "text": "They are dear, I see."}
    model = script(keeper.folder, call("burn", text="letters"), dear, {"text": "Done."})
    if "no\n" in answers:
        answers = answers.replace("e\nno\n", "e\nno\ne\n")
        content = "burnt ashes\n"
    done = keeper("run", "keeper", "burn the letters", "--model", model, "--approver", "eve", stdin=answers)
    assert (done.code, done.out) == (0, f"{output}\n"), done.err
    assert "approve? [y]es, [n]o, [e]dit" in done.said
    path = keeper.folder / "shelf.txt"
    assert (path.read_text() if path.exists() else None) == content


@pytest.mark.spec("T38")
def test_a_request_hides_nothing_from_its_approver(keeper: Command) -> None:
    """Markup, and characters that move the cursor or turn the direction of text, are shown as what they are."""
    text = "tea[/]\x1b[2K\u202e \r[red]harmless"
    model = script(keeper.folder, call("burn", text=text), {"text": "Done."})
    done = keeper("run", "keeper", "burn it", "--model", model)
    assert done.code == 3
    assert "\x1b[2K" not in done.err
    assert "\u202e" not in done.err
    assert r"tea[/]\u001b[2K\u202e \r[red]harmless" in done.said


@pytest.mark.realtime
@pytest.mark.spec("R11", "G17")
def test_who_acts_does_not_approve(keeper: Command) -> None:
    model = script(keeper.folder, call("burn", text="letters"), {"text": "Done."})
    done = keeper("run", "keeper", "burn it", "--model", model, "--approver", "local", "--no-wait", stdin="y\n")
    assert done.code == 3
    assert not (keeper.folder / "shelf.txt").exists()


@pytest.mark.realtime
def test_a_chat_goes_on_line_by_line(keeper: Command) -> None:
    model = script(keeper.folder, {"text": "Hello, Ada."}, call("put", text="tea"), {"text": "There it is."})
    done = keeper("chat", "keeper", "--model", model, stdin="I am Ada\n\nkeep tea\n")
    assert (done.code, done.out) == (0, "Hello, Ada.\nThere it is.\n"), done.err
    session = done.said.partition("session ")[2].partition(";")[0]
    more = script(keeper.folder, *({"text": "x"},) * 3, {"text": "Still here."})
    done = keeper("chat", "--resume", session, "--model", more, stdin="and now?\n")
    assert (done.code, done.out) == (0, "Still here.\n"), done.err


@pytest.mark.realtime
@pytest.mark.spec("R11")
def test_ctrl_c_cancels_the_turn_and_keeps_the_session(keeper: Command) -> None:
    model = script(keeper.folder, call("hang"), {"text": "Here I am."})
    with keeper.start(
        "chat", "keeper", "--model", model, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write("hang\n")
        process.stdin.flush()
        wait_until((keeper.folder / "hanging").exists)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate("still there?\n", 30)
    assert process.returncode == 0, err
    assert out == "Here I am.\n"
    assert "cancelled" in err


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("run", "keeper"), 2, "capset run AGENT TASK"),
        (("run", "keeper", "x", "--model", "script:none.yaml"), 2, "cannot be read"),
        (("run", "keeper", "x"), 2, "names no model"),
        (("run", "nobody", "x", "--model", "test"), 2, "nobody"),
        (("run", "keeper", "x", "--model", "no-such-provider:x"), 2, "cannot be used"),
        (("run", "--session", "x", "--model", "test"), 2, "there is no"),
        (("run", "keeper", "caf\udce9", "--model", "test"), 2, "is not valid UTF-8 text"),
    ],
)
def test_what_cannot_be_done_is_said(keeper: Command, options: tuple[str, ...], code: int, message: str) -> None:
    done = keeper(*options)
    assert done.code == code, done
    assert message in done.said


@pytest.mark.nightly
@pytest.mark.spec("R22")
def test_a_conversation_is_recorded_and_given_again(keeper: Command) -> None:
    """Also over several processes: what a session goes on with is appended."""
    model = script(
        keeper.folder, {"text": "I put it."} | call("put", text="milk"), {"text": "Done."}, {"text": "Milk."}
    )
    recorded = ("--record", "talk.jsonl")
    done = keeper("run", "keeper", "keep milk", "--model", model, *recorded, "--json")
    assert done.code == 0, done.err
    session = keeper("sessions", "list", "--json").json["items"][0]["id"]
    assert keeper("run", "--session", session, "what was it?", "--model", model, *recorded).out == "Milk.\n"
    assert len((keeper.folder / "talk.jsonl").read_text().splitlines()) == 3
    (keeper.folder / "script.json").unlink()
    replayed = keeper("run", "keeper", "keep milk", "--model", "cassette:talk.jsonl", "--json")
    assert [alike(event) for event in events(replayed)] == [alike(event) for event in events(done)]
    session = keeper("sessions", "list", "--json").json["items"][0]["id"]
    more = keeper("run", "--session", session, "what was it?", "--model", "cassette:talk.jsonl")
    assert (more.code, more.out) == (0, "Milk.\n"), more.err
    chat = keeper("chat", "keeper", "--model", "cassette:talk.jsonl", stdin="keep milk\nwhat was it?\nand?\n")
    assert chat.out == "I put it.\nDone.\nMilk.\n"
    assert "The cassette talk.jsonl ends before the run does" in chat.said


def alike(event: dict[str, Any]) -> tuple[str, Any]:
    """Return the part of an event that is the same in a replay."""
    differs = ("record", "duration_us")
    return event["type"], {key: value for key, value in event["data"].items() if key not in differs}


@pytest.mark.nightly
@pytest.mark.spec("R22")
def test_a_replay_says_what_has_changed(keeper: Command) -> None:
    model = script(keeper.folder, call("put", text="milk"), {"text": "Done."})
    assert keeper("run", "keeper", "keep milk", "--model", model, "--record", "talk.jsonl").code == 0
    replay = ("--model", "cassette:talk.jsonl")
    done = keeper("run", "keeper", "keep tea", *replay)
    assert done.code == 3
    assert "exchange 1 of the cassette talk.jsonl: the conversation changed (in the prompt)" in done.said
    assert "Record it again: capset run AGENT TASK --model script:" in done.said
    shelf = keeper.folder / "packages" / "shelf.py"
    shelf.write_text(SHELF.replace("Burn something.", "Burn it.").replace("keep a shelf", "keep shelves"))
    done = keeper("run", "keeper", "keep milk", *replay)
    assert done.code == 3
    assert "the instructions changed; the tools changed (burn changed). Record it again" in done.said
    assert (keeper.folder / "shelf.txt").read_text() == "milk\n", "nothing was called"


@pytest.mark.realtime
@pytest.mark.spec("R22")
def test_what_was_recorded_survives_its_process(keeper: Command) -> None:
    model = script(keeper.folder, {"text": "Wait."} | call("hang"), {"text": "Done."})
    command = ("run", "keeper", "hang", "--model", model, "--record", "talk.jsonl")
    with keeper.start(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until((keeper.folder / "hanging").exists)
        process.kill()
    lines = (keeper.folder / "talk.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) == 1
    assert lines[0].endswith("\n")
    (keeper.folder / "hanging").unlink()
    with keeper.start(*command[:3], "--model", "cassette:talk.jsonl", stdout=subprocess.PIPE) as process:
        wait_until((keeper.folder / "hanging").exists)
        assert process.stdout is not None
        assert process.stdout.readline() == "Wait.\n"  # what was stored is printed soon after
        process.kill()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "cassette:none.jsonl"), "none.jsonl: cannot be read"),
        (("--model", "cassette:notes.txt"), "notes.txt, line 1: not a cassette"),
        (("--model", "test", "--record", "notes.txt"), "notes.txt: is not a cassette, and was left unchanged"),
        (("--model", "test", "--record", "none/talk.jsonl"), "cannot be written"),
        (("--model", "cassette:talk.jsonl", "--record", "talk.jsonl"), "are already recorded"),
        (("--model", "test", "--allow-model", "cassette:talk.jsonl"), "--allow-model: a script or a cassette"),
        (("--url", "http://localhost:1", "--record", "talk.jsonl"), "--record is for work on this machine"),
    ],
)
def test_what_no_cassette_can_be(keeper: Command, options: tuple[str, ...], message: str) -> None:
    (keeper.folder / "notes.txt").write_text("dear\n")
    done = keeper("run", "keeper", "x", *options)
    assert done.code == 2, done
    assert message in done.said
    assert (keeper.folder / "notes.txt").read_text() == "dear\n"
