"""Decisions on approval requests over every interface, and the approval page."""
