"""Perturbation operators, one a module, and their registry."""
