"""The audit log in SQL: records in their chain, checkpoints and retention."""
