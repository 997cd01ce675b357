"""Turns of agents in the protocols of others: OpenAI's APIs, AG-UI, and the AI SDK's UI messages (spec 6, R18–R21)."""
