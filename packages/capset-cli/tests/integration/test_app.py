"""The command line as a whole: what loads, help, and the completion of shells."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from capset_cli.app import COMMANDS, GROUPS
from tests.helpers.cli.support import CAPSET, Run, clean_environment

LOADED = """
import atexit, sys
from capset_cli import main
atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))
sys.argv[0] = "capset"
main()
"""
"""The installed command, which says at its end what it has loaded."""
FEW = {
    "capset",
    "capset_cli",
    *(f"capset_cli.{module}" for module in ("app", "common", "common.process", "common.texts")),
    *("capset.definitions", "capset.definitions.environments"),
}
"""What is loaded before any command."""


def loaded(folder: Path, *arguments: str, **environ: str) -> tuple[str, set[str]]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments],
        cwd=folder,
        env=clean_environment(folder, **environ),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, set(done.stderr.splitlines()[-1].split())


@pytest.mark.realtime
def test_the_version_is_told_without_loading_what_commands_need(tmp_path: Path) -> None:
    output, modules = loaded(tmp_path, "--version")
    assert output.startswith("capset ")
    assert "typer" in modules
    assert not {"pydantic", "pydantic_core", "rich", "asyncio", "yaml"} & modules
    assert {module for module in modules if module.startswith("capset")} == FEW


@pytest.mark.realtime
def test_a_command_loads_no_other(tmp_path: Path) -> None:
    _, modules = loaded(tmp_path, "key", "list", "--help")
    assert "capset_cli.key" in modules
    assert not {"capset_cli.call", "capset_cli.serve", "capset_cli.demo", "capset_cli.audit.records"} & modules


@pytest.mark.parametrize("command", ["", "call", "audit", "mcp", "gateway", "mcp serve", "key create"])
def test_h_is_help(command: str, run: Run) -> None:
    help_page = run(*command.split(), "--help")
    assert "Usage: " in help_page.out
    assert run(*command.split(), "-h") == help_page


def completed(folder: Path, words: str) -> tuple[list[str], set[str]]:
    """Return what is offered for the last of some words."""
    place = str(len(words.split(" ")) - 1)
    output, modules = loaded(folder, _CAPSET_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=place)
    return output.split(), modules


@pytest.mark.realtime
def test_a_shell_completes_names_and_options(tmp_path: Path) -> None:
    words, modules = completed(tmp_path, "capset ")
    assert words == [*COMMANDS, *GROUPS]
    assert {module for module in modules if module.startswith("capset")} == FEW, "as fast as somebody types"
    assert completed(tmp_path, "capset a")[0] == ["agents", "audit", "approvals"]
    assert completed(tmp_path, "capset audit ch")[0] == ["checkpoint", "checkpoints"]
    assert completed(tmp_path, "capset call --pri")[0] == ["--principal"]


@pytest.mark.realtime
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_shown(shell: str, tmp_path: Path) -> None:
    environ = clean_environment(tmp_path, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    command = [CAPSET, "--show-completion", shell]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True)
    assert f"_CAPSET_COMPLETE=complete_{shell}" in done.stdout
