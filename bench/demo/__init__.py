"""``make demo``: a real change feed, killed in the middle, and proven complete."""
