"""Coming from DM."""
