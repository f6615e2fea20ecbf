"""Tables as values; DDL as functions on them."""
