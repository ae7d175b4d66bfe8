"""Runs as datasets to train on: `run_export` reads the records, one module a format writes them."""
