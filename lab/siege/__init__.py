"""Attacks on real servers, measured from the point of view of a bystander: ``make lab-siege``."""
