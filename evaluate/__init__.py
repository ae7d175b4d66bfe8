"""Running, recording and judging evaluations; importing it loads nothing."""
