"""Intervals, resampling and power; they inform and never gate, and need NumPy alone."""
