"""Ids, ts, positions, errors, clock, back-off: imports nothing of ours."""
