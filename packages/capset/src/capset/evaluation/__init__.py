"""Evaluation of a composition: the tools that one principal may use here and now (spec 2, F15–F22)."""
