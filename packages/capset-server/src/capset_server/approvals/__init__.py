"""Decisions on requests for approvals, over every interface, and the page for people."""
