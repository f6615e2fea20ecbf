"""TiCDC's documented requests and command lines, replayed: what is the same, other, or refused."""
