"""Learned shields (protocol section 6)."""
