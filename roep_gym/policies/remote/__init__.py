"""Clients of the policy servers that people run: one base, the transports, and a module for each protocol."""
