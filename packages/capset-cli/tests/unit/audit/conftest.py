from tests.helpers.cli.audit.fixtures import run

__all__ = ["run"]
