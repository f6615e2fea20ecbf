"""The sink that keeps nothing."""
