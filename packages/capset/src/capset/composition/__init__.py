"""The composition of definitions into one static result; pure (spec 1)."""
