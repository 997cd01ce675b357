"""The tie between requirements and tests, on real trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_spec_ids import Mention, carried_ids, finished_ids, main, spec_ids

SPEC = """# Spec
- **C1** A thing. **Not an id** nor X9, nor C7.
| **G12** fields | **K3** |
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs/spec").mkdir(parents=True)
    (tmp_path / "docs/spec/1-a.md").write_text(SPEC)
    (tmp_path / "docs/spec/finished.md").write_text("# Finished\nEvery **C99** here needs a test.\n")
    (tmp_path / "tests/deep").mkdir(parents=True)
    return tmp_path


def finish(root: Path, *lines: str) -> None:
    (root / "docs/spec/finished.md").write_text("# Finished\n" + "".join(f"{line}\n" for line in lines))


def add_test(root: Path, source: str) -> None:
    (root / "tests/deep/test_a.py").write_text(f"import pytest\n{source}\n")


def failures(root: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    code = main(root)
    lines = capsys.readouterr().err.splitlines()
    assert code == (1 if lines else 0)
    return [line.removeprefix("spec ids: ") for line in lines]


def test_ids_are_the_bold_ones_of_the_pages_but_not_of_the_list(root: Path) -> None:
    assert spec_ids(root) == {"C1", "G12", "K3"}


def test_an_id_that_is_defined_twice_is_named(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "docs/spec/2-b.md").write_text("- **K3** Another thing.\n")
    assert failures(root, capsys) == ["docs/spec defines K3 2 times"]


def test_items_of_the_finished_list_may_carry_a_note(root: Path) -> None:
    finish(root, "- C1", "- G12: but for quotas", "* K3 (reads)", "no item: C9", "- soon")
    assert [mention.id for mention in finished_ids(root)] == ["C1", "G12", "K3", None]
    assert finished_ids(root)[0].where == "docs/spec/finished.md:2"


def test_markers_are_read_wherever_pytest_reads_them(root: Path) -> None:
    add_test(
        root,
        "pytestmark = [pytest.mark.spec('C1')]\n"
        "@pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.spec('K3'))])\n"
        "@pytest.mark.spec(\n    'G12',\n    'G13',\n)\n"
        "async def test_a(x): ...\n"
        "# pytest.mark.spec('C8')\n"
        "TEXT = \"pytest.mark.spec('C9')\"",
    )
    assert sorted(carried_ids(root), key=lambda mention: str(mention.id)) == [
        Mention("tests/deep/test_a.py:2", "C1"),
        Mention("tests/deep/test_a.py:5", "G12"),
        Mention("tests/deep/test_a.py:6", "G13"),
        Mention("tests/deep/test_a.py:3", "K3"),
    ]


def test_an_unknown_id_fails_with_what_was_perhaps_meant(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_test(root, "@pytest.mark.spec('G13')\ndef test_a(): ...")
    assert failures(root, capsys) == ["tests/deep/test_a.py:2: docs/spec defines no G13 (did you mean G12?)"]


@pytest.mark.parametrize("arguments", ["", "NAME", "*IDS", "id='C1'", "12"])
def test_a_marker_without_a_written_id_fails(root: Path, capsys: pytest.CaptureFixture[str], arguments: str) -> None:
    add_test(root, f"@pytest.mark.spec({arguments})\ndef test_a(): ...")
    assert failures(root, capsys) == ["tests/deep/test_a.py:2: names no id; write ids out, such as G12"]


def test_a_finished_id_needs_a_test(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finish(root, "- C1", "- K3")
    add_test(root, "@pytest.mark.spec('C1')\ndef test_a(): ...")
    assert failures(root, capsys) == ["docs/spec/finished.md:3: K3 is finished, but no test carries it"]
    add_test(root, "@pytest.mark.spec('C1', 'K3')\ndef test_a(): ...")
    assert failures(root, capsys) == []


def test_the_finished_list_names_defined_ids_only(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finish(root, "- P77", "- nothing yet")
    assert failures(root, capsys) == [
        "docs/spec/finished.md:2: docs/spec defines no P77",
        "docs/spec/finished.md:3: names no id; write ids out, such as G12",
    ]


def test_a_spec_without_ids_fails(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "docs/spec/1-a.md").write_text("# Empty\n")
    assert failures(root, capsys) == ["docs/spec defines no ids at all"]


def test_main_prints_the_counts(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finish(root, "- C1")
    add_test(root, "@pytest.mark.spec('C1', 'G12')\ndef test_a(): ...")
    assert main(root) == 0
    assert capsys.readouterr().out == "spec ids: 3 defined, 2 carried by tests, 1 finished\n"
