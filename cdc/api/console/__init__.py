"""The console: the page at ``/``, whose files are in ``page``."""
