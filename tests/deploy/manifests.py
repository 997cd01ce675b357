"""The files of ``deploy/`` as tests read them: documents of YAML, and commands as the command line parses them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import typer
import yaml

from capset_cli.app import app

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
KUBERNETES: Final = DEPLOY / "kubernetes"
COMPOSE: Final = DEPLOY / "compose.yaml"


def manifests() -> dict[str, Any]:
    """Return every object of Kubernetes, by the name of its file; the one for kustomize is not among them."""
    paths = sorted(path for path in KUBERNETES.iterdir() if path.name != "kustomization.yaml")
    return {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths}


def compose() -> dict[str, Any]:
    """Return the compose file, its merge keys resolved."""
    return yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))


def parse(words: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the command that words name and its parameters, as ``capset`` parses them, without running it.

    Raises what the command line reports for an unknown command or option, or for a value that does not fit.
    """
    command: Any = typer.main.get_command(app)
    context = command.make_context("capset", [*words])
    while hasattr(command, "resolve_command"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)
    return context.command_path, context.params


def variables_of(*path: str) -> set[str]:
    """Return the environment variables that a command names: those of its options, and those of its help."""
    command: Any = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]
    named = {
        variable
        for option in command.params
        for variable in ([option.envvar] if isinstance(option.envvar, str) else [])
    }
    help_text = " ".join(str(option.help) for option in command.params)
    return named | set(re.findall(r"CAPSET_[A-Z_]+[A-Z]", help_text))


def pod_of(manifest: Any) -> Any:
    """Return the pod that a Deployment or a Job makes."""
    return manifest["spec"]["template"]["spec"]


def container_of(manifest: Any) -> Any:
    """Return its one container."""
    (container,) = pod_of(manifest)["containers"]
    return container
