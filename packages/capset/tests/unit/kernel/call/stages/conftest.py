from tests.helpers.kernel.call.stages.fixtures import store

__all__ = ["store"]
