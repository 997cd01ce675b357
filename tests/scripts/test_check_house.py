"""The rules on layout, words and recipes, on small trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_house import RULES, main, problems

STAGES = "packages/capset/src/capset/kernel/call/stages"


def write(root: Path, name: str, text: str = "x = 1\n") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_500_lines_pass_and_501_fail_by_name(tmp_path: Path) -> None:
    write(tmp_path, "tests/full.py", "x = 1\n" * 500)
    assert problems(tmp_path, {}) == []
    write(tmp_path, "tests/over.py", "x = 1\n" * 501)
    write(tmp_path, "scripts/far_over.py", "x = 1\n" * 599 + "y = 2")
    violations = problems(tmp_path, {})
    assert [violation.partition(";")[0] for violation in violations] == [
        "scripts/far_over.py has 600 lines",
        "tests/over.py has 501 lines",
    ]
    excepted = {"long_modules": {"tests/over.py": "a table", "scripts/far_over.py": "a table"}}
    assert problems(tmp_path, excepted) == []


def test_a_folder_has_at_most_20_entries(tmp_path: Path) -> None:
    for number in range(20):
        write(tmp_path, f"packages/capset/src/capset/net/m{number}.py")
    write(tmp_path, "packages/capset/src/capset/net/__init__.py")
    assert problems(tmp_path, {}) == []
    write(tmp_path, "packages/capset/src/capset/net/more/m.py")
    (violation,) = problems(tmp_path, {})
    assert violation.startswith("packages/capset/src/capset/net has 21 entries")


@pytest.mark.parametrize(
    ("name", "text", "phrase"),
    [
        ("packages/capset/src/capset/kernel/bubbling.py", "", "is named by a participle"),
        ("packages/capset/src/capset/kernel/making/__init__.py", "", "is named by a participle"),
        ("packages/capset/src/capset/a.py", '"""What a record says."""\n', "docstring that begins with 'What'"),
        ("packages/capset/src/capset/a.py", "# Nobody reads it\n", "says 'Nobody'"),
        ("packages/capset-tools/src/capset_tools/shout.py", "", "no entry point"),
        ("packages/capset-tools/src/capset_tools/shout.py", "", "no page docs/capabilities/shout.md"),
        ("packages/capset-tools/src/capset_tools/shout.py", "", "mkdocs.yml does not list"),
        (f"{STAGES}/extra.py", "def check(installed): ...\n", "stands in no phase"),
        (
            "packages/capset/src/capset/stores/base/shouts.py",
            "class ShoutStore(Protocol):\n    async def shout(self) -> None: ...\n",
            "calls ShoutStore.shout",
        ),
    ],
)
def test_a_step_that_was_left_out_is_named(tmp_path: Path, name: str, text: str, phrase: str) -> None:
    write(tmp_path, name, text)
    violations = problems(tmp_path, {})
    assert any(phrase in violation for violation in violations), violations
    assert all(Path(name).stem in violation or "making" in violation for violation in violations)


@pytest.mark.parametrize("admitting", ["(check, approval)", "(\n        check,\n        approval,\n    )"])
def test_a_stage_before_approval_is_named(tmp_path: Path, admitting: str) -> None:
    path = f"{STAGES}/phases.py"
    write(tmp_path, path, f'STAGES: Final = {{"admit": {admitting}}}\n')
    (violation,) = problems(tmp_path, {})
    assert "approval must be first" in violation
    write(tmp_path, path, 'STAGES: Final = {"admit": (approval, check)}\n')
    assert problems(tmp_path, {}) == []


@pytest.mark.parametrize("stages", ["(check, validation, policy)", "(validation, check, policy)", "(\n  policy,\n)"])
def test_a_stage_that_comes_before_the_policies_is_named(tmp_path: Path, stages: str) -> None:
    path = f"{STAGES}/phases.py"
    write(tmp_path, path, f'STAGES: Final = {{"arguments": {stages}}}\n')
    (violation,) = problems(tmp_path, {})
    assert "validation and policy must be first" in violation
    write(tmp_path, path, 'STAGES: Final = {"arguments": (validation, policy, check)}\n')
    assert problems(tmp_path, {}) == []


def test_a_class_name_stands_once(tmp_path: Path) -> None:
    write(tmp_path, "packages/capset/src/capset/a.py", "class Gate: ...\n")
    write(tmp_path, "packages/capset/src/capset/b.py", "class Gate: ...\n")
    (violation,) = problems(tmp_path, {})
    places = "packages/capset/src/capset/a.py and packages/capset/src/capset/b.py"
    assert violation == f"the class Gate stands in {places}; rename one of them"


def test_an_exception_that_nothing_needs_is_a_finding_and_so_is_one_without_a_reason(tmp_path: Path) -> None:
    write(tmp_path, "packages/capset/src/capset/making.py")
    assert problems(tmp_path, {"participles": {"capset.making": "", "gone": "was needed"}}) == [
        "scripts/house.toml: participles gives no reason for 'capset.making'",
        "scripts/house.toml: participles needs no exception for 'gone' any more; remove it",
    ]


def test_the_exit_code_says_whether_all_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "scripts/house.toml", "")
    assert main(tmp_path) == 0
    assert capsys.readouterr().out == f"house: {len(RULES)} rules hold\n"
    write(tmp_path, "packages/capset/src/capset/making.py")
    assert main(tmp_path) == 1
    assert "making.py is named by a participle" in capsys.readouterr().err
