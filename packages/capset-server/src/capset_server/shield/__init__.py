"""The shield, which protects the server from callers that overload it. README.md here describes what each part does."""
