from tests.helpers.kernel.streams.fixtures import (
    anyio_backend,
    impatient,
    nothing_is_left_behind,
    pytest_collection_modifyitems,
    stage,
)

__all__ = ["anyio_backend", "impatient", "nothing_is_left_behind", "pytest_collection_modifyitems", "stage"]
