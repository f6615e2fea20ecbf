"""Tidegate: a changefeed framework on Spark."""

__version__ = "0.1.0"
