"""One capture process: the composition root."""
