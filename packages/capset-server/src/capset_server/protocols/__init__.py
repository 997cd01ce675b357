"""Agent turns over other protocols: OpenAI's APIs, AG-UI and the AI SDK's UI messages (spec 6, R18–R21)."""
