"""Hosting: how an agent's sessions run, declared once, and the way of each of their turns (spec 2, F24, F25)."""
