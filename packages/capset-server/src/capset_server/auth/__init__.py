"""Authentication of callers: API keys and JSON Web Tokens."""
