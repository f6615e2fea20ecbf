"""The real tools of online schema change, on real servers, through a whole capture."""
