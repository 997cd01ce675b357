"""Governance of calls: approvals, limits, audit, redaction."""
