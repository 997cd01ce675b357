"""The stages of the pipeline, one module per phase; ``phases`` puts them in order."""
