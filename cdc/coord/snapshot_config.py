"""The ``[snapshot]`` table of a changefeed: which rows that were there before are copied, and how.

The plain model, as :mod:`cdc.coord.feed_config` has it; ``tables`` are patterns of table rules, and
``where`` is SQL of the upstream.
"""

from __future__ import annotations

from enum import StrEnum
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from cdc.base.secret_refs import is_reference
from cdc.base.secrets import is_doubtful


class SnapshotMode(StrEnum):
    """Whether rows are copied, and whether changes follow them."""

    NONE = "none"
    INITIAL = "initial"
    ONLY = "only"


class OnExisting(StrEnum):
    """What is done with rows that a target's table has before those of a snapshot come."""

    FAIL = "fail"
    UPSERT = "upsert"
    TRUNCATE = "truncate"


class SnapshotConfig(BaseModel):
    """Keys in snake_case, as in the replica config.

    ``tables`` None: all that pass the changefeed's filter; others narrow these. ``where`` is ANDed
    to every SELECT, "" takes all rows. ``chunk_rows``: rows of a table's first chunk, and what none
    exceeds; ``chunk_seconds``: how long one should take, by which the others are made.
    ``max_rows_per_second``: of all tables together, 0 is no limit. ``max_connections``: chunks that
    are read at once.
    ``max_threads_running``: while more sessions of the upstream do something, nothing more is read;
    0 is no limit. ``max_replica_lag``: the same while an upstream that is a replica is so many
    seconds behind, or has stopped; 0 is no limit. ``on_existing``: of rows that a changefeed begins
    with; None leaves it to the sink. ``create_tables``: databases and tables that a target does not
    have are made before the rows come. ``uri``: a replica of the upstream that rows are read from,
    "" is the upstream itself; it has no password but a reference to one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    mode: SnapshotMode = Field(default=SnapshotMode.NONE, strict=False)
    tables: list[str] | None = Field(default=None, min_length=1)
    where: str = ""
    chunk_rows: int = Field(default=100_000, ge=1, le=10_000_000)
    chunk_seconds: float = Field(default=2.0, gt=0, le=600)
    max_rows_per_second: int = Field(default=0, ge=0)
    max_connections: int = Field(default=2, ge=1, le=64)
    max_threads_running: int = Field(default=0, ge=0)
    max_replica_lag: float = Field(default=0.0, ge=0, strict=False)
    on_existing: OnExisting | None = Field(default=None, strict=False)
    create_tables: bool = False
    uri: str = ""

    @field_validator("uri")
    @classmethod
    def _uri_names_a_server(cls, uri: str) -> str:
        if not uri:
            return uri
        try:
            parts = urlsplit(uri)
            named = parts.scheme in ("mysql", "mariadb") and bool(parts.hostname)
            named = named and parts.port != 0
        except ValueError:
            named = False
        if not named or is_doubtful(uri) or parts.path not in ("", "/"):
            raise ValueError("uri is none of a server: mysql://[user[:env:NAME]@]host[:port]")
        if parts.password is not None and not is_reference(unquote(parts.password)):
            # It is shown with the configuration.
            raise ValueError(
                "uri has a password: leave it out with the user, to take the upstream's, or write"
                " env:NAME or file:/path in its place"
            )
        return uri

    @model_validator(mode="after")
    def _condition_says_something(self) -> SnapshotConfig:
        if self.where and not self.where.strip():
            raise ValueError("where is blank: leave it out to take all rows")
        return self
