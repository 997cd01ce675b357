"""Which exact version it was: canonical bytes, payloads and hashes. Pure (spec 2, F1–F13)."""
