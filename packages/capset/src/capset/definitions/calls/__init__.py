"""The nouns of a call: messages, the context of its handler, files, the content of results, and its record."""
