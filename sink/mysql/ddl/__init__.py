"""Schema changes at a MySQL or MariaDB target, each exactly once.

``changer`` is what the owner calls (``sink.schema_change.SchemaChanger``). A change is recorded as
``executing`` in ``tidegate.ddl`` (``ledger``) before its statement runs, and as ``done`` behind it;
DDL commits by itself, so after a crash between the two the target's own definitions decide what
remains (``carrying``): ``shown`` reads them, ``facets`` compares, ``decide`` judges, ``witness``
helps where definitions show nothing. ``rewrite`` makes the statement the target's, with
``translate`` between the families. ``execution`` is the session in which it means what it meant.
"""
