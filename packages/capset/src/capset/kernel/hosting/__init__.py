"""Hosting: the declaration of an agent's sessions, and the running of their turns (spec 2, F24, F25)."""
