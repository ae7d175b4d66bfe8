"""Policies and their protocol."""
