"""Whether a target holds what its upstream holds: ``cdc cli changefeed verify``."""
