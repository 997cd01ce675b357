"""The project's own checks; `make check` and `make examples` run them."""
