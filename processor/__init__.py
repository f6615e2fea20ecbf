"""Moves rows, never decides: windows, Spark jobs, reports."""
