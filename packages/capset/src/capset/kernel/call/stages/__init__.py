"""The stages of the pipeline, one module a phase, put in their order by ``phases``."""
