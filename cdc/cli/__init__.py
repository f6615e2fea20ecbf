"""The command line: ``cdc server``, ``cdc cli …``, ``cdc log …``."""
