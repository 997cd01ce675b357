"""Mutations of a tiny package, and whether its tests are seen to notice them."""

from __future__ import annotations

import contextlib
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from lab.mutants.__main__ import MODULES, PACKAGES, PROCESSES, ROOT, Aim, run, sample, show
from lab.mutants.mutations import changes_in
from lab.mutants.reach import Reach
from lab.mutants.tree import Tree
from tests.waiting import wait_until

TINY = {
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = ["-p", "no:schemathesis", "-p", "no:hypothesispytest"]\n',
    "src/tiny/__init__.py": "",
    "src/tiny/held.py": "def is_small(number):\n    return number < 10\n",
    "src/tiny/loose.py": "def more(number):\n    return number + 1\n",
    "src/tiny/bad.py": "def other(number):\n    return not number\n",
    "src/tiny/endless.py": "def fall(number):\n    while number:\n        number -= 1\n",
    "tests/test_values.py": "from tiny import held, loose\n\n"
    "def test_small():\n    assert held.is_small(9)\n    assert not held.is_small(10)\n\n"
    "def test_more():\n    loose.more(1)\n",
    "tests/test_bad.py": "from tiny.bad import other\n\ndef test_other():\n    assert other(1) == 7\n",
    "tests/test_endless.py": "from tiny.endless import fall\n\ndef test_fall():\n    fall(3)\n",
}
STUCK = """
import signal, subprocess, time
from pathlib import Path

def test_stuck():
    signal.signal(signal.SIGALRM, signal.SIG_IGN)  # by which pytest would end it
    child = subprocess.Popen(["sleep", "600"])
    Path("child").write_text(str(child.pid))
    time.sleep(600)
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Aim:
    """Give a package, some of which its tests hold, in a folder that git knows."""
    root = tmp_path / "tiny"
    for name, text in TINY.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return Aim(root, "src/tiny", ["."], tmp_path / "kept", root / "equivalent.toml", test_seconds=2)


@pytest.mark.realtime
@pytest.mark.nightly
def test_what_is_noticed_what_survives_and_what_says_nothing(tiny: Aim, capsys: pytest.CaptureFixture[str]) -> None:
    report = run(tiny, 99, 1, 60)
    show(report)
    noticed = {mutation.path: outcome.test for mutation, outcome in report.noticed}
    assert noticed == {
        "src/tiny/held.py": "tests/test_values.py::test_small",
        "src/tiny/endless.py": "tests/test_endless.py::test_fall",
    }
    (survivor,) = (mutation for mutation in report.survivors if mutation.path == "src/tiny/loose.py")
    assert (survivor.line, survivor.function, survivor.before) == (2, "more", "return number + 1")
    assert [(mutation.path, test) for mutation, test in report.unclear] == [
        ("src/tiny/bad.py", "tests/test_bad.py::test_other")
    ]
    output = capsys.readouterr().out
    assert f"  src/tiny/loose.py:2 more\n    - return number + 1\n    + {survivor.after}\n" in output
    assert output.splitlines()[-1].startswith(f"score: {report.score:.1f} %, 2 of ")
    for name, text in TINY.items():
        assert (tiny.root / name).read_text() == text, "the tree itself is left alone"


@pytest.mark.realtime
@pytest.mark.nightly
def test_tests_that_cannot_be_measured_end_the_run(tiny: Aim) -> None:
    (tiny.root / "tests/test_broken.py").write_text("import no_such_package\n")
    with pytest.raises(RuntimeError, match="expected pytest to run the tests"):
        run(tiny, 99, 1, 60)


@pytest.mark.realtime
@pytest.mark.nightly
def test_what_it_names_of_this_project_is_there(tiny: Aim) -> None:
    project = Aim(ROOT, PACKAGES, MODULES, tiny.cache, ROOT / "lab/mutants/equivalent.toml")
    assert len(sample(project, 3, 1)) == 3
    assert project.stale() == []
    for module, tests in PROCESSES.items():
        for file in (f"{PACKAGES}/{module}.py", *tests):
            assert (ROOT / file).is_file(), file
    with pytest.raises(SystemExit, match="there is no module"):
        sample(replace(tiny, modules=["gone"]), 3, 1)


@pytest.mark.realtime
def test_what_is_equivalent_is_not_tried(tiny: Aim) -> None:
    tiny = replace(tiny, modules=["loose.py"])
    ((mutation, _),) = sample(tiny, 99, 1)
    entry = {"path": mutation.path, "function": mutation.function, "before": mutation.before, "after": mutation.after}
    fields = "\n".join(f'{name} = "{text}"' for name, text in entry.items())
    tiny.equivalent.write_text(f'[[equivalent]]\n{fields}\nreason = "nobody asks"\n')
    report = run(tiny, 99, 1, 60)
    assert [(equivalent.key, reason) for equivalent, reason in report.equivalent] == [(mutation.key, "nobody asks")]
    assert (report.survivors, report.noticed, report.score) == ([], [], 100.0)
    assert tiny.stale() == []
    (tiny.root / mutation.path).write_text("def more(number):\n    return 2 + number\n")
    assert tiny.stale() == [mutation.key]


@pytest.mark.realtime
def test_the_same_seed_gives_the_same_changes_one_a_line(tiny: Aim) -> None:
    first, repeated, other = (sample(tiny, 3, seed) for seed in (1, 1, 2))
    assert first == repeated
    assert first != other
    places = [(mutation.path, mutation.line) for mutation, _ in sample(tiny, 99, 1)]
    assert len(places) == len(set(places)) == 5


@pytest.mark.realtime
@pytest.mark.nightly
def test_a_run_that_hangs_is_ended_with_all_that_it_started(tiny: Aim, tmp_path: Path) -> None:
    (tiny.root / "tests/test_stuck.py").write_text(STUCK)
    for seconds in (3, 40):  # the second where it takes longer to start
        tree = Tree(tiny.root, tmp_path / str(seconds), test_seconds=1, start_seconds=seconds)
        outcome = tree.run(["tests/test_stuck.py::test_stuck"], 0)
        if (started := tree.root / "child").exists():
            break
    assert (outcome.kind, outcome.test) == ("hung", "tests/test_stuck.py::test_stuck")
    child = Path("/proc", started.read_text(), "stat")
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it is gone, and was not reaped before
        wait_until(lambda: " Z " in child.read_text(), "the child to end")


@pytest.mark.realtime
@pytest.mark.nightly
def test_only_what_was_changed_is_measured_again(tiny: Aim, tmp_path: Path) -> None:
    messages: list[str] = []
    (tmp_path / "one").mkdir()
    tree = Tree(tiny.root, tmp_path / "one")
    reach = Reach(tiny.cache, tiny.package)
    reach.update(tree, tiny.test_files(), messages.append)
    assert "3 files" in messages.pop()
    source = TINY["src/tiny/held.py"]
    assert reach.tests_of("src/tiny/held.py", range(2, 3), source) == {"tests/test_values.py::test_small"}
    assert reach.tests_of("src/tiny/held.py", range(4, 5), f"\n\n{source}") == {"tests/test_values.py::test_small"}
    both = {"tests/test_values.py::test_small", "tests/test_values.py::test_more"}
    second_reach = Reach(tiny.cache, tiny.package)
    tree.write("tests/test_values.py", TINY["tests/test_values.py"].replace("loose.more(1)", "held.is_small(1)"))
    second_reach.update(tree, tiny.test_files(), messages.append)
    assert "1 file of tests" in messages.pop()
    assert second_reach.tests_of("src/tiny/held.py", range(2, 3), source) == both
    assert second_reach.tests_of("src/tiny/endless.py", range(3, 4), TINY["src/tiny/endless.py"]) == {
        "tests/test_endless.py::test_fall"
    }
    second_reach.update(tree, tiny.test_files(), messages.append)
    assert messages == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a < b", {"a <= b", "a >= b"}),
        ("a is not None", {"a is None"}),
        ("a <= b <= c", {"a < b <= c", "a > b <= c", "a <= b < c", "a <= b > c"}),
        ("x = a and b", {"x = a or b"}),
        ("x = not a", {"x = a"}),
        ("x = a if b else c", {"x = a if not (b) else c"}),
        ("if a(b):\n        pass", {"if not (a(b)):\n        pass"}),
        ("x = [a for a in b if a]", {"x = [a for a in b if not (a)]"}),
        ("x = a[1:] + 0", {"x = a[2:] + 0", "x = a[1:] - 0", "x = a[1:] + 1"}),
        ("x = max(a, True)", {"x = min(a, True)", "x = max(a, False)"}),
        ("x = a['key'], 'for people'", {"x = a[\"keyx\"], 'for people'"}),
        ("return a, b", {"return b, a", "return None"}),
        ("return", set()),
        ("raise a", {"pass"}),
        ("await a()", {"pass"}),
        ("a.b = c", {"pass"}),
        ("a = b", set()),
        ("a += b", {"pass"}),
        ("_log.error(a < b, 1)", set()),
        ("assert a < b", set()),
        ("x: Literal['key'] = a", set()),
        ("x = cast('key', a)", set()),
        ("x = f'{a < b}'", set()),
        ("'''A docstring.'''", set()),
    ],
)
def test_which_changes_are_tried(line: str, expected: set[str]) -> None:
    head = "async def f(a: 'key' = None) -> 'key':\n    "
    text = head + line + "\n"
    mutations = {change.of("m.py", text) for change in changes_in(text)}
    assert {mutation.text.removeprefix(head).rstrip("\n") for mutation in mutations if mutation is not None} == expected
