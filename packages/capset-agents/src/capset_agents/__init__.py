"""Agents that run: their turns, the conversations of these, and the runner on pydantic-ai (extra ``agent``)."""
