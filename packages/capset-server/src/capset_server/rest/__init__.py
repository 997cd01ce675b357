"""The REST API, ``/v1``: one module per noun (spec 5)."""
