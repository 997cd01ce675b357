"""The nouns of a call: messages, the context of its handler, files, contents of results, and its record."""
