"""Other people's shapes, turned into capset's definitions."""
