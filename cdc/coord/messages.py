"""What owner, processor and API say to each other through the coordination store.

Every message is a typed value with a JSON form; the store keeps the JSON. Keys are in
``cdc.coord.keys``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from cdc.base.errors import TidegateError
from cdc.base.ids import FeedId
from cdc.base.position import Position, TransactionName
from cdc.coord.snapshot_config import SnapshotMode

FORMAT = 1
"""Of stored values; it grows when an older version would misunderstand what a newer one writes."""


class Message(BaseModel):
    """Base: immutable. Errors and ``repr`` show no value of a field that they do not know.

    Fields of a newer version are kept, and written again with the rest.
    """

    model_config = ConfigDict(frozen=True, extra="allow", hide_input_in_errors=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        known = type(self).model_fields
        return ((n, v) for n, v in super().__repr_args__() if n in known)


Names = dict[int, list[Any]]
"""By ts the last transaction at or below it, as a list of the fields of a TransactionName."""


def named(names: Names) -> dict[int, TransactionName]:
    """The names again."""
    return {ts: TransactionName.of(name) for ts, name in names.items()}


class StoredMessage(Message):
    """A value of the store. One of a ``format`` that this version does not know is refused."""

    format: int = Field(default=FORMAT, ge=1, le=FORMAT)


class FeedState(StrEnum):
    """States of a changefeed (design §4.3); transitions are in ``owner.state``."""

    NORMAL = "normal"
    PENDING = "pending"
    WARNING = "warning"
    STOPPED = "stopped"
    FAILED = "failed"
    FINISHED = "finished"
    REMOVED = "removed"


ENDED = frozenset({FeedState.FINISHED, FeedState.REMOVED})
"""States of changefeeds that need nothing of a log any more."""


class ErrorInfo(Message):
    """An error as shown to people; ``kind`` is one of the five of ``cdc.base.errors``."""

    code: str
    kind: str
    message: str
    object: str = ""
    position: str = ""
    hint: str = ""
    time_ms: int = 0

    @classmethod
    def of(cls, error: TidegateError, time_ms: int = 0) -> ErrorInfo:
        """An error as it was met at ``time_ms`` (Unix time; 0: when does not matter)."""
        return cls(**error.to_dict(), time_ms=time_ms)


class CaptureInfo(StoredMessage):
    """A running ``cdc server``, registered under its lease.

    ``ready``: it can deliver. ``logs``: by upstream the log that it had when it started.
    ``lends``: how many tasks of other captures its workers run at once.
    """

    id: str
    address: str
    version: str = ""
    cluster_id: str = "default"
    pid: int = 0
    start_time_ms: int = 0
    ready: bool = False
    logs: dict[str, str] = Field(default_factory=dict)
    lends: int = 0


class UpstreamFinding(Message):
    """What a server lacks that does not forbid to pull it, and the statement that mends it."""

    what: str
    statement: str


class UpstreamInfo(StoredMessage):
    """A registered upstream. ``uri`` holds the password: mask it before showing.

    ``findings``: what its registration found and did not refuse. ``nodes``: of one that is several
    servers, which has no URI of its own; each is called ``upstream.node``. ``carrier``: of one of
    kind ``cluster``, where its nodes' binlogs have commit TSOs; ``logical_tables``: patterns of the
    names of parts (``cdc.logical.names``), if its tables are logical. ``ends_ts``: of a node that
    leaves the ts of its own log up to which it is merged, else 0; ``left``: names of nodes that
    have left.
    """

    name: str
    uri: str = Field(repr=False)
    kind: str = "single"
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    server_kind: str = ""
    server_version: str = ""
    server_uuid: str = ""
    server_id: int = 0
    start: dict[str, Any] = Field(default_factory=dict)
    create_time_ms: int = 0
    findings: list[UpstreamFinding] = Field(default_factory=list)
    nodes: list[UpstreamInfo] = Field(default_factory=list)
    carrier: str = ""
    logical_tables: list[str] = Field(default_factory=list)
    ends_ts: int = 0
    left: list[str] = Field(default_factory=list)

    @property
    def node_name(self) -> str:
        """The name of a node without its upstream's."""
        return self.name.partition(".")[2]

    def servers(self) -> dict[str, UpstreamInfo]:
        """Each server, by its node's name without the upstream's; ``""`` where there is one."""
        return {node.node_name: node for node in self.nodes} or {"": self}


class PreparedXa(Message):
    """An XA transaction that is prepared, since when, and what of the log stays for its sake."""

    xid: str
    since_ms: int
    log_bytes: int


class UpstreamStatus(StoredMessage):
    """What the puller of an upstream last said.

    ``clock_skew_ms``: the server's clock minus ours. ``ahead_ms``: how far an event's time is ahead
    of the latest time that is believed.
    ``prepared``: XA transactions that have been prepared for long, oldest first. ``first_ts``: the
    log holds every transaction above it. ``anchored_ts``: that of the newest place where another
    log could begin, which the server's binlog must reach back to.
    ``waits_for``: the node that all others wait for, ``held_ms``: how far it is behind them.
    """

    state: str = "starting"
    resolved_ts: int = 0
    position: dict[str, Any] = Field(default_factory=dict)
    log_bytes: int = 0
    clock_skew_ms: int = 0
    ahead_ms: int = 0
    error: ErrorInfo | None = None
    prepared: list[PreparedXa] = Field(default_factory=list)
    first_ts: int = 0
    anchored_ts: int = 0
    waits_for: str = ""
    held_ms: int = 0


class TableReadState(StrEnum):
    """How far the reading of one table is."""

    WAITING = "waiting"
    READING = "reading"
    READ = "read"


class TableRead(Message):
    """Of one table (``schema.table``) so many rows were read, of about so many; 0: not known."""

    name: str
    state: TableReadState
    rows: int = 0
    expected: int = 0


class SnapshotProgress(Message):
    """How far the copy of rows that were there before is.

    ``rows`` and ``bytes`` are those that were read. ``base_ts`` and ``ts``: between which the
    rows lie in the order, once all are copied, else 0. ``low_ts``: the log is needed above it.
    ``rows_expected``: the server's guess of all rows, 0 without one; ``rows_per_second`` of the
    last half minute. ``reads``: tables, those first that are read or have the most rows to come.
    """

    tables: int = 0
    tables_done: int = 0
    rows: int = 0
    bytes: int = 0
    began_ms: int = 0
    ended_ms: int = 0
    base_ts: int = 0
    ts: int = 0
    low_ts: int = 0
    rows_expected: int = 0
    rows_per_second: float = 0.0
    reads: list[TableRead] = Field(default_factory=list)

    @property
    def reading(self) -> bool:
        """Whether rows are read: some are known of, and not all are there."""
        return bool(self.reads) and not self.ts


def seconds_left(rows: int, expected: int, per_second: float) -> int | None:
    """How long it takes until so many more rows are read; None where nothing is known of it."""
    if not expected or per_second <= 0:
        return None
    return round(max(0, expected - rows) / per_second)


class RowsPiece(Message):
    """Rows of tables (lower-case ``schema.table``) as they were at ``ts``, copied by an order.

    In the order of delivery they lie in ``(base_ts, ts]``, where the log itself has nothing.
    """

    id: str
    tables: list[str]
    base_ts: int
    ts: int


class CopiedTable(Message):
    """Rows of a table (``schema.table``) among those of a copy: so many, and the ts of the last."""

    name: str
    last_ts: int
    rows: int


class CopiedRows(StoredMessage):
    """What was copied for a changefeed to begin with, kept apart from the rows, which may be lost.

    Rows have ts of ``(base_ts, ts]``, ``ts`` is ``FeedInfo.snapshot_ts``. ``tables``: in the order
    of their rows; empty where there are too many. ``transactions``: the last at or below ``ts``.
    """

    base_ts: int
    ts: int
    rows: int
    tables: list[CopiedTable] = Field(default_factory=list)
    transactions: Names = Field(default_factory=dict)

    def delivered(self, main_ts: int, tables: Mapping[str, int]) -> frozenset[str]:
        """Tables of which all rows lie at or below where they stand (``tables`` in lower case)."""
        return frozenset(
            t.name for t in self.tables if t.last_ts <= tables.get(t.name.lower(), main_ts)
        )

    def begun(self, furthest_ts: int) -> frozenset[str]:
        """Tables of which some row may lie at or below a ts."""
        begins = [self.base_ts, *(t.last_ts for t in self.tables)]
        pairs = zip(self.tables, begins, strict=False)
        return frozenset(table.name for table, begin in pairs if begin < furthest_ts)


class RowsAgain(Message):
    """The rows that a changefeed began with were lost in the middle, and are copied again.

    ``order``: by which; "" where nothing was left to copy. All tables stood at ``main_ts`` but
    those of ``tables``. ``rows``: at most so many come twice. ``delivered``: all are there.
    """

    order: str
    main_ts: int
    tables: dict[str, int] = Field(default_factory=dict)
    rows: int = 0
    time_ms: int = 0
    delivered: bool = False


class CopyOrder(StoredMessage):
    """An operator's word: copy the rows of tables for a changefeed that runs.

    ``id`` counts up. ``tables`` are patterns of table rules, ``where`` is SQL of the upstream.
    ``paused``: nothing more is read for it until that is taken back; what was read is kept.
    ``again``: in place of rows that were lost; tables that had all of theirs are left out.
    ``repairs``: of so many rows of one table a verification found that they differ at the target;
    ``where`` is true for their keys. ``target_only`` are those of which the upstream had no row,
    as ``cdc.snapshot.target_only`` has them, with a text for each column of ``key``.
    """

    id: str
    tables: list[str]
    where: str = ""
    time_ms: int = 0
    cancelled: bool = False
    paused: bool = False
    again: bool = False
    repairs: int = 0
    key: list[str] = []
    target_only: list[list[str]] = []


class CopyState(StrEnum):
    """Where an order to copy rows stands."""

    WAITING = "waiting"
    COPYING = "copying"
    PAUSED = "paused"
    DELIVERING = "delivering"
    DELIVERED = "delivered"
    FAILED = "failed"
    CANCELLED = "cancelled"


class CopyStatus(StoredMessage):
    """What the owner says of an order; ``tables`` are those that were copied."""

    id: str
    state: CopyState = CopyState.WAITING
    tables: list[str] = Field(default_factory=list)
    progress: SnapshotProgress | None = None
    error: ErrorInfo | None = None


class ConfigChange(Message):
    """Another configuration for a changefeed that runs, and from which ts on; 0: not chosen yet.

    ``sink_uri`` may hold a password.
    """

    ts: int = 0
    sink_uri: str = Field(repr=False)
    config: dict[str, Any] = Field(repr=False)


class FeedInfo(StoredMessage):
    """A changefeed as its user configured it. ``sink_uri`` may hold a password.

    ``epoch`` grows whenever delivery starts anew (create, resume, capture start); the ledger
    carries it, and a writer of an older epoch is fenced. ``installation`` and ``incarnation`` are
    in the ledger's keys; a changefeed of a version before them has none. ``snapshot_ts``: rows that
    were there before are delivered as they were at this ts, as transactions above ``start_ts``;
    0 if there are none, or they have not been copied yet. ``rows_delivered``: all of them are, and
    the progress that is stored is behind them. ``indexes_due``: tables that were made for them may
    lack indexes, which are added before anything behind ``snapshot_ts`` comes. ``piece``: rows that
    are delivered anew. ``again``: those that it began with were lost, and are copied again.
    ``change``: what it takes without a pause. ``placed``: tables (lower-case ``schema.table``) that
    an operator has moved, and to which capture, the last one moved last.
    """

    id: str
    installation: str = ""
    incarnation: int = 0
    upstream: str
    sink_uri: str = Field(repr=False)
    config: dict[str, Any] = Field(default_factory=dict, repr=False)
    start_ts: int
    target_ts: int = 0
    create_time_ms: int = 0
    creator_version: str = ""
    state: FeedState = FeedState.NORMAL
    error: ErrorInfo | None = None
    epoch: int = 1
    snapshot_ts: int = 0
    rows_delivered: bool = False
    indexes_due: bool = False
    piece: RowsPiece | None = None
    again: RowsAgain | None = None
    change: ConfigChange | None = None
    placed: dict[str, str] = Field(default_factory=dict)

    @property
    def lacks_rows(self) -> bool:
        """Whether its target lacks rows that are being copied again."""
        return self.again is not None and not self.again.delivered

    @property
    def copies(self) -> bool:
        """Whether it must copy rows that were there before, and has not done so yet."""
        mode = self.config.get("snapshot", {}).get("mode", SnapshotMode.NONE)
        return mode != SnapshotMode.NONE and not self.snapshot_ts

    @property
    def ledger_id(self) -> FeedId:
        """Whose ledger the sink keeps."""
        return FeedId(self.installation, self.id, self.incarnation)


class TableStop(Message):
    """A table that has stopped at a ts for good, until the operator acts."""

    table: str
    ts: int
    error: ErrorInfo


class DdlState(StrEnum):
    """Where a schema change stands."""

    WAITING = "waiting"
    HELD = "held"
    EXECUTING = "executing"
    FAILED = "failed"
    DONE = "done"
    SKIPPED = "skipped"
    IGNORED = "ignored"


class ShardStand(Message):
    """Where a table of a shard group stands at a schema change.

    ``group`` is the name at the target, ``came``: it has delivered all before its change.
    """

    group: str
    table: str
    came: bool = False


class DdlEntry(Message):
    """A schema change of a changefeed, as shown to people.

    ``tables`` wait for it (``schema.table``, ``*`` for all); ``waits_for`` are those that have not
    delivered all before it, and earlier changes of the same tables. ``since_ms`` is when the owner
    first saw it, ``begun_ms`` and ``ended_ms`` are of its execution. ``why`` says who holds, skips
    or ignores it.
    """

    ts: int
    sql: str
    kind: str = ""
    tables: list[str] = Field(default_factory=list)
    state: DdlState = DdlState.WAITING
    waits_for: list[str] = Field(default_factory=list)
    since_ms: int = 0
    begun_ms: int = 0
    ended_ms: int = 0
    why: str = ""
    error: ErrorInfo | None = None


class DdlEntries(StoredMessage):
    """What the owner says of a changefeed's schema changes: pending ones, then the last ended.

    ``transactions`` names those above the checkpoint, ended or not, of which the sink's ledger may
    have a record, or the store a round or a decision. ``shard_rounds``: of changes that are carried
    out once for a shard group, by the ts of the one that the ledger has a record of, those of all.
    ``shard_stands``: by ts, of pending ones of tables in shard groups. ``shard_missing``: by group
    tables of it that have no change pending, while others have. ``shard_remnants``: by group and
    column tables that have dropped it, while the target has it (``*``: one that has left).
    """

    pending: list[DdlEntry] = Field(default_factory=list)
    ended: list[DdlEntry] = Field(default_factory=list)
    executed: int = 0
    skipped: int = 0
    ignored: int = 0
    transactions: Names = Field(default_factory=dict)
    shard_rounds: dict[int, list[int]] = Field(default_factory=dict)
    shard_stands: dict[int, ShardStand] = Field(default_factory=dict)
    shard_missing: dict[str, list[str]] = Field(default_factory=dict)
    shard_remnants: dict[str, dict[str, list[str]]] = Field(default_factory=dict)


class DdlAction(StrEnum):
    """What an operator may say of a pending schema change."""

    HOLD = "hold"
    APPROVE = "approve"
    SKIP = "skip"


class DdlDecision(StoredMessage):
    """An operator's word on one schema change; kept until the change lies below the checkpoint.

    ``about`` is the code of the error that the change showed then.
    """

    ts: int
    action: DdlAction
    reason: str = ""
    about: str = ""
    time_ms: int = 0


class CopyReport(Message):
    """Processor to owner: how far the copy of an order is.

    ``tables`` (lower-case) once all are copied. ``lost``: what was copied is not there any more.
    """

    id: str
    progress: SnapshotProgress = Field(default_factory=SnapshotProgress)
    tables: list[str] = Field(default_factory=list)
    error: ErrorInfo | None = None
    lost: bool = False


class FeedStatus(StoredMessage):
    """Progress of a changefeed, written by the owner.

    ``checkpoint_ts`` is the least of all tables. ``main_ts`` is where all tables stand but those of
    ``tables`` (lower-case ``schema.table``), which wait for a schema change or have stopped.
    ``transactions``: for each of these ts the last transaction at or below it (:func:`named`).
    ``snapshot``: of a changefeed that began with a copy of rows. ``copied_above_ts``: a copy that
    is in work needs the log above it; 0 if there is none. ``sync_point_ts``: the last sync point
    that the target has noted, 0 if none.
    """

    checkpoint_ts: int
    resolved_ts: int = 0
    main_ts: int = 0
    tables: dict[str, int] = Field(default_factory=dict)
    barrier_ts: int = 0
    stopped_tables: list[TableStop] = Field(default_factory=list)
    transactions: Names = Field(default_factory=dict)
    snapshot: SnapshotProgress | None = None
    copied_above_ts: int = 0
    sync_point_ts: int = 0

    @property
    def needed_ts(self) -> int:
        """The log is needed above it."""
        return min(self.checkpoint_ts, self.copied_above_ts or self.checkpoint_ts)


class Assignment(StoredMessage):
    """Owner to processor: what a capture must run of a changefeed.

    ``checkpoint_ts``: everything at or below it is delivered, for all tables but those of
    ``tables`` (lower-case ``schema.table``), which stand where that says, lower or higher; both
    count when delivery starts. ``judged_ts``: DDLs at or below it are judged, and what they hold
    back is said here; no row above a later DDL of the log may be delivered, nor above
    ``barrier_ts``. ``table_barriers``: the same for single tables, where lower. ``ties`` are pairs
    of tables that the target ties together, of those that are held or catch up: these do so
    together. ``copy_order``: rows that are to be copied beside it; ``piece``: those that are
    delivered, and which of the log's place they have. ``rows_delivered``: those that it began with
    are not needed any more. ``repeatable``: the target may have rows that are inserted, and lack
    those that are changed. ``placed``: tables whose rows workers of another capture are to deliver,
    as ``FeedInfo`` has them.
    """

    feed: str
    epoch: int
    run: bool
    checkpoint_ts: int
    judged_ts: int
    barrier_ts: int
    tables: dict[str, int] = Field(default_factory=dict)
    table_barriers: dict[str, int] = Field(default_factory=dict)
    ties: list[tuple[str, str]] = Field(default_factory=list)
    copy_order: CopyOrder | None = None
    piece: RowsPiece | None = None
    rows_delivered: bool = False
    repeatable: bool = False
    placed: dict[str, str] = Field(default_factory=dict)


class Acknowledgements(StoredMessage):
    """What the destinations of a changefeed's incarnation have acknowledged, at least.

    ``log_ts``: where its change log ended when a server started that has not compared it with the
    ledger yet.
    """

    incarnation: int
    positions: list[tuple[str, int, int, int]] = Field(default_factory=list)
    log_ts: int | None = None

    @classmethod
    def of(
        cls, incarnation: int, positions: Mapping[tuple[str, int], Position], log_ts: int | None
    ) -> Acknowledgements:
        """From positions by destination."""
        listed = [(*d, at.ts, at.row) for d, at in sorted(positions.items())]
        return cls(incarnation=incarnation, positions=listed, log_ts=log_ts)

    def by_destination(self) -> dict[tuple[str, int], Position]:
        """The positions again."""
        return {(name, n): Position(ts, row) for name, n, ts, row in self.positions}


class Report(StoredMessage):
    """Processor to owner: how far a changefeed has been delivered.

    ``checkpoint_ts``: everything at or below is delivered, durably, for all tables that are not
    held back. ``table_checkpoints`` names only tables that stand lower than that.
    ``transactions``: the last one at or below each of these ts. ``snapshot``: how far the copy is
    that comes before delivery, and ``copied_rows`` what it has come to; ``copied``: one that goes
    on beside it. ``barrier_ts``: that of the
    assignment which it goes by; ``furthest_ts``: no destination has anything above it.
    """

    feed: str
    epoch: int
    checkpoint_ts: int
    resolved_ts: int = 0
    table_checkpoints: dict[str, int] = Field(default_factory=dict)
    stopped_tables: list[TableStop] = Field(default_factory=list)
    error: ErrorInfo | None = None
    rows: int = 0
    bytes: int = 0
    running: bool = False
    transactions: Names = Field(default_factory=dict)
    snapshot: SnapshotProgress | None = None
    copied_rows: CopiedRows | None = None
    copied: CopyReport | None = None
    barrier_ts: int = 0
    furthest_ts: int = 0


class Anchor(StoredMessage):
    """Where an upstream's log could begin anew, with all that lies above ``ts``.

    ``position`` as a log's manifest has it. The schema there is that of ``schema_ts``, which lies
    in ``chunks`` values beside it. ``capture`` has pulled up to there, into ``log``; the first one
    of an upstream is nobody's. Of a cluster's node, ``prepared`` are xids of XA transactions that
    are prepared there, whose rows a log that begins there would lack.
    """

    ts: int
    position: dict[str, Any]
    schema_ts: int
    chunks: int
    capture: str = ""
    log: str = ""
    prepared: list[str] = Field(default_factory=list)

    @property
    def first(self) -> bool:
        """Whether the upstream's first log began there."""
        return not self.capture and not self.log


class UpstreamPlacement(StoredMessage):
    """Which capture is to have an upstream: it pulls it, and delivers what reads it.

    ``number`` grows with each move. ``reason``: one of ``owner.placement.PlacementReason``.
    """

    upstream: str
    capture: str
    number: int
    reason: str = ""
    time_ms: int = 0


class CurrentLog(StoredMessage):
    """The log that positions of an upstream's changefeeds belong to, and where it lies."""

    log: str
    capture: str


class ApiToken(StoredMessage):
    """A token of the API that was made for somebody; its secret is kept by its holder alone.

    ``digest``: SHA-256 of the whole token, hexadecimal. ``expires_ms`` 0: it does not expire.
    """

    name: str
    role: str
    digest: str = Field(repr=False)
    created_ms: int
    created_by: str = ""
    expires_ms: int = 0


class AuditEntry(StoredMessage):
    """A change that somebody asked the API for, see ``cdc.server.audit``.

    ``outcome``: ``ok`` or the code of an error; empty: the server ended, or lost its store, before
    it was known. ``before`` and ``after`` have what differs, by path, without secrets.
    """

    number: int
    time_ms: int
    caller: str
    role: str
    peer: str = ""
    capture: str = ""
    action: str
    object: str = ""
    outcome: str = ""
    status: int = 0
    request: Any = Field(default=None, repr=False)
    before: dict[str, Any] | None = Field(default=None, repr=False)
    after: dict[str, Any] | None = Field(default=None, repr=False)
