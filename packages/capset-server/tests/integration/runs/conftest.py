from tests.helpers.server.runs.fixtures import url

__all__ = ["url"]
