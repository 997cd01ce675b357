"""The limits on the size of modules, on real trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_module_size import main, measure, problems, src_median


def write(root: Path, name: str, lines: int) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x = 1\n" * lines)


def test_measures_every_checked_folder_and_nothing_else(tmp_path: Path) -> None:
    for folder in ("src/pkg", "tests", "examples", "benchmarks", "scripts", "other"):
        write(tmp_path, f"{folder}/m.py", 3)
    write(tmp_path, "src/pkg/notes.md", 900)
    assert {path.as_posix(): lines for path, lines in measure(tmp_path).items()} == {
        "src/pkg/m.py": 3,
        "tests/m.py": 3,
        "examples/m.py": 3,
        "benchmarks/m.py": 3,
        "scripts/m.py": 3,
    }


def test_counts_a_last_line_without_its_end(tmp_path: Path) -> None:
    write(tmp_path, "src/a.py", 0)
    (tmp_path / "src/a.py").write_text("x = 1\ny = 2")
    assert list(measure(tmp_path).values()) == [2]


def test_400_lines_pass_and_401_fail_by_name(tmp_path: Path) -> None:
    write(tmp_path, "tests/full.py", 400)
    assert problems(measure(tmp_path)) == []
    write(tmp_path, "tests/over.py", 401)
    write(tmp_path, "scripts/far_over.py", 500)
    assert problems(measure(tmp_path)) == [
        "scripts/far_over.py has 500 lines; at most 400",
        "tests/over.py has 401 lines; at most 400",
    ]


def test_the_median_of_src_stays_below_150(tmp_path: Path) -> None:
    write(tmp_path, "src/a.py", 149)
    assert problems(measure(tmp_path)) == []
    write(tmp_path, "src/b.py", 151)
    assert problems(measure(tmp_path)) == ["the median module of src has 150 lines; it must stay below 150"]


def test_empty_modules_and_tests_do_not_lower_the_median(tmp_path: Path) -> None:
    write(tmp_path, "src/a.py", 200)
    write(tmp_path, "src/__init__.py", 0)
    write(tmp_path, "tests/test_a.py", 1)
    assert src_median(measure(tmp_path)) == 200


def test_main_prints_the_figures_and_fails_on_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(tmp_path) == 0
    assert capsys.readouterr().out == "module size: 0 modules, median of src 0 lines\n"
    write(tmp_path, "src/a.py", 401)
    assert main(tmp_path) == 1
    printed = capsys.readouterr()
    assert printed.out == "module size: 1 modules, median of src 401 lines\n"
    assert "module size: src/a.py has 401 lines; at most 400\n" in printed.err
