"""What holds for calls and what is kept of them: approvals, limits, audit, redaction."""
