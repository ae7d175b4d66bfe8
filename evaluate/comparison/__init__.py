"""Two runs, or a run and the published numbers, beside each other."""
