"""The nouns of capset: frozen values and protocols. Nothing here does I/O or holds state."""
