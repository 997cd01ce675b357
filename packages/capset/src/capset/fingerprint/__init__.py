"""Fingerprints of exact versions: canonical bytes, payloads and hashes. Pure (spec 2, F1–F13)."""
