"""The nouns of capset: frozen values and protocols. Nothing here does I/O or keeps state (DESIGN §4, rule 1)."""
