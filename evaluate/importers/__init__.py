"""Other tools' logs as runs: one module a tool, `combine` lays logs out as one run, `gaps` says what they lack."""
