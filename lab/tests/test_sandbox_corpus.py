"""Code as models write it gives in the sandbox what the real interpreters give, or says that it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import sandbox_corpus
from lab.sandbox_corpus import CORPUS, ROWS, Compared, Row, compare, is_met, scripts_of
from tests.helpers.tools.sandbox.support import need_jails, without_namespaces

EACH = 12
"""Of so many scripts one is run here; ``make nightly`` runs all of them."""


def test_the_corpus_is_as_large_as_it_was() -> None:
    assert len(scripts_of("python")) >= 180
    assert len(scripts_of("bash")) >= 133
    names = {output.stem for output in (CORPUS / "outputs").iterdir()}
    assert names <= {script.name for language in ("python", "bash") for script in scripts_of(language)}
    assert len(names) >= 40


@pytest.mark.realtime
@pytest.mark.spec("P18")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.language} {row.setting}")
def test_nothing_of_a_part_of_the_corpus_differs_in_silence(row: Row) -> None:
    if row.setting == "isolated-cpython":
        need_jails()
    comparisons = compare(row, scripts_of(row.language)[::EACH])
    assert [comparison.script.name for comparison in comparisons if comparison.verdict == "different"] == []
    assert is_met(row, comparisons)


@pytest.mark.spec("P18")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.language} {row.setting}")
def test_one_script_that_differs_in_silence_is_enough_to_fail(row: Row) -> None:
    same, *others = scripts_of(row.language)
    comparisons = [Compared(same, "monty", "different"), *(Compared(script, "monty", "same") for script in others)]
    assert not is_met(row, comparisons)
    assert is_met(row, comparisons[1:])


@pytest.mark.realtime
@pytest.mark.spec("P18")
def test_where_nothing_can_be_jailed_it_fails_and_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with without_namespaces(tmp_path):
        assert sandbox_corpus.main(["--each", "60"]) == 1
    assert "No permissions to create new namespace" in capsys.readouterr().err


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("P18")
@pytest.mark.timeout(900)
def test_the_whole_corpus_reaches_its_shares(capsys: pytest.CaptureFixture[str]) -> None:
    need_jails()
    assert sandbox_corpus.main([]) == 0, capsys.readouterr().err
