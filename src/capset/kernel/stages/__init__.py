"""The stages of the one road: one module each, put in their order by ``order``."""
