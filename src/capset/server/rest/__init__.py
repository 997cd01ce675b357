"""The REST API, ``/v1``: one module a noun (spec 5)."""
