"""The built-in policy that sees."""
