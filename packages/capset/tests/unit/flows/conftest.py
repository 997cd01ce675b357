from tests.helpers.flows.fixtures import anyio_backend, nothing_is_left_behind, store

__all__ = ["anyio_backend", "nothing_is_left_behind", "store"]
