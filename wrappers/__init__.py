"""Gymnasium wrappers of the ROEP protocol."""
