from tests.helpers.agents.fixtures import shelf, url

__all__ = ["shelf", "url"]
