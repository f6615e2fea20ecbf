"""Bodies of requests; names as TiCDC's OpenAPI v2 (snake_case)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from cdc.base.redaction import RedactMode
from cdc.coord.names import CARRIER_NAMES, NODE_NAME, UPSTREAM_NAME
from cdc.server.logging_setup import LOGGERS
from cdc.server.settings import LogLevel
from owner.requests import ChangefeedUpdate, NewChangefeed

# Strict: without it `false` is taken as 0, which stands for "now" or "never", and "1" as 1.
_AskedTs = Annotated[int, Field(strict=True, ge=0)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class CreateChangefeed(_Request):
    """``POST /changefeeds``.

    ``replace_installation``: the id of an installation that is gone for good; what its changefeed
    of this id has left in the sink's ledger is removed.
    """

    changefeed_id: str = ""
    upstream: str
    sink_uri: str = Field(default="", repr=False)
    start_ts: _AskedTs = 0
    target_ts: _AskedTs = 0
    replica_config: dict[str, Any] = Field(default_factory=dict, repr=False)
    replace_installation: str = ""

    def request(self) -> NewChangefeed:
        """As the owner takes it."""
        return NewChangefeed(
            self.changefeed_id,
            self.upstream,
            self.sink_uri,
            self.start_ts,
            self.target_ts,
            self.replica_config,
            self.replace_installation,
        )


class MovedTable(_Request):
    """What ``POST /changefeeds/{id}/move_table`` has in its query, as TiCDC names it.

    ``tableID``: a name, or an id as ``GET /processors/{id}/{capture}`` has it. ``targetNodeID``: a
    capture's id, or ``any``. ``mode`` 1 is of TiCDC's redo log, of which there is none. ``wait`` is
    taken and means nothing: a move is in force with the next window.
    """

    table: str = Field(alias="tableID", min_length=1)
    capture: str = Field(alias="targetNodeID", min_length=1)
    mode: Literal["0"] = "0"
    wait: bool = False


class UpdateChangefeed(_Request):
    """``PUT /changefeeds/{id}``: what is None stays."""

    sink_uri: str | None = Field(default=None, repr=False)
    target_ts: _AskedTs | None = None
    replica_config: dict[str, Any] | None = Field(default=None, repr=False)

    def request(self) -> ChangefeedUpdate:
        """As the owner takes it."""
        return ChangefeedUpdate(self.sink_uri, self.target_ts, self.replica_config)


class ResumeChangefeed(_Request):
    """``POST /changefeeds/{id}/resume``; 0: from the checkpoint.

    ``rewind``: from where the sink's ledger stands, which has gone back. ``copy_again``: behind
    rows that were lost in the middle of their delivery, which are copied again.
    """

    overwrite_checkpoint_ts: _AskedTs | Literal["now"] = 0
    rewind: bool = False
    copy_again: bool = False


class CreateNode(_Request):
    """One of an upstream's nodes; ``start``: as of the upstream, for this node."""

    name: str = Field(json_schema_extra={"pattern": f"^{NODE_NAME}$"})
    uri: SecretStr
    start: str | None = None


class CreateUpstream(_Request):
    """``POST /upstreams``; ``start``: a GTID set, ``file:position`` or a time.

    One of kind ``shards`` or ``cluster`` has ``nodes`` in the place of ``uri``; ``carrier``, of the
    latter: where the nodes' binlogs have commit TSOs, ``timestamp`` if nothing is said;
    ``logical_tables``: patterns of the names of its tables' parts, if it has logical tables.
    """

    name: str = Field(json_schema_extra={"pattern": f"^{UPSTREAM_NAME}$"})
    kind: Literal["single", "shards", "cluster"] = "single"
    carrier: str = Field(default="", json_schema_extra={"enum": ["", *CARRIER_NAMES]})
    logical_tables: list[str] = Field(default_factory=list)
    uri: SecretStr = SecretStr("")
    nodes: list[CreateNode] = Field(default_factory=list)
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    start: str | None = None


class _UpdateServer(_Request):
    uri: SecretStr | None = None
    user: Annotated[str, Field(min_length=1)] | None = None
    password: SecretStr | None = None


class UpdateNode(_UpdateServer):
    """How one of an upstream's nodes is reached; what is None stays."""

    name: str = Field(json_schema_extra={"pattern": f"^{NODE_NAME}$"})


class UpdateUpstream(_UpdateServer):
    """``PUT /upstreams/{name}``: how the same server is reached; what is None stays.

    ``uri`` replaces the whole URI, ``user`` and ``password`` those in it; an empty ``ca``, ``cert``
    or ``key`` takes the file's name away. Of kind ``shards`` these are of all nodes, and ``nodes``
    has what is of one alone, also its URI.
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    nodes: list[UpdateNode] = Field(default_factory=list)


class LogLevelChange(_Request):
    """``POST /log``; ``logger``: the part of the server whose level it is, else that of all."""

    log_level: LogLevel
    logger: str = Field(default="", json_schema_extra={"enum": ["", *LOGGERS]})


class RedactionChange(_Request):
    """``POST /log/redact``: how much user data log lines show; only less than they do."""

    redact_info_log: RedactMode


class MoveUpstream(BaseModel):
    """``POST /upstreams/{name}/move``: the capture that is to have it."""

    capture_id: str = Field(min_length=1, max_length=128)
