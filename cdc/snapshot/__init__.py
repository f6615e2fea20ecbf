"""Row snapshots: the rows that were there before a changefeed, read beside its changes."""
