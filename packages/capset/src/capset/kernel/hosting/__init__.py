"""Hosting: the declaration of an agent's sessions, and the run of each of their turns (spec 2, F24, F25)."""
