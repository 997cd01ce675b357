from tests.helpers.cli.fixtures import capset, foundry, run, workshop

__all__ = ["capset", "foundry", "run", "workshop"]
