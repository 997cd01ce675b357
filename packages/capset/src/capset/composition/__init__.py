"""From definitions to one static result; pure (spec 1)."""
