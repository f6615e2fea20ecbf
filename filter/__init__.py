"""What passes: table rules, compiled once."""
