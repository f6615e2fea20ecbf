"""Logical tables of a cluster: what its nodes keep in parts, as its coordinator shows it."""
