"""Logs for workers that do not see the data directory: an endpoint, and copies that it fills."""
