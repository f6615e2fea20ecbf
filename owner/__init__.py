"""Decides, never touches rows: states of changefeeds, DDL, barriers, checkpoints."""
