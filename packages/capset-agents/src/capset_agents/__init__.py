"""Running agents: their turns and conversations, and the runner based on pydantic-ai (extra ``agent``)."""
