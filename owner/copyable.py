"""Whether the rows that were there before a changefeed can be copied; asked before it is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cdc.base.errors import DefiniteError, InvalidError, TidegateError
from cdc.base.ts import Ts
from cdc.coord.feed_config import FeedConfig
from cdc.coord.snapshot_config import OnExisting, SnapshotMode
from cdc.schema.snapshot import Schema
from cdc.schema.table import Table
from cdc.snapshot.images import RowImages
from cdc.snapshot.target_only import TargetOnly
from filter.copied import CopiedTables
from sink.contract import Sink
from sink.schema_change import TableName

_SHOWN = 20


class SnapshotNotPossible(InvalidError):
    """A changefeed's rows that were there before cannot be copied as it is configured."""

    code = "TG:ErrSnapshotNotPossible"


def check_copyable(
    tables: Iterable[Table], config: FeedConfig, start_ts: Ts, sink: Sink, *, mariadb: bool
) -> None:
    """Raises SnapshotNotPossible if rows are to be copied, and those of a table cannot be.

    ``start_ts``: what was asked for, 0 is now.
    """
    check_creatable(config, sink)
    if config.snapshot.mode is SnapshotMode.NONE:
        return
    if sink.snapshot_obstacle:
        raise SnapshotNotPossible(
            f"this sink takes no rows that were there before: {sink.snapshot_obstacle}",
            object="snapshot.mode",
            hint="leave the snapshot out, or deliver it to a sink of another kind",
        )
    if start_ts:
        raise SnapshotNotPossible(
            "a snapshot holds the rows of now, and start-ts asks for changes of before",
            object="snapshot.mode",
            hint="leave start-ts out, or the snapshot",
        )
    sink.first_rows(config.snapshot.on_existing)
    copied = copied_tables(tables, config)
    if config.snapshot.on_existing is OnExisting.UPSERT:
        _check_keys(copied)
    _check_tables(copied, mariadb=mariadb)


def check_creatable(config: FeedConfig, sink: Sink) -> None:
    """Raises SinkOptionNotSupported if tables are to be made at a sink that cannot."""
    if config.snapshot.create_tables:
        sink.new_tables()


def absent_tables(
    tables: Iterable[Table], schema: Schema, config: FeedConfig, sink: Sink
) -> frozenset[TableName]:
    """Those that the target does not have, if they are made there before their rows come.

    Raises SnapshotNotPossible for one that the target cannot have.
    """
    if not config.snapshot.create_tables:
        return frozenset()
    new = sink.new_tables()
    missing = new.missing([schema.definition((t.schema, t.name)) for t in tables])
    try:
        new.check(missing, schema.session)
    except DefiniteError as e:
        raise SnapshotNotPossible(e.message, object=e.object, hint=e.hint) from None
    return frozenset((d.table.schema, d.table.name) for d in missing)


def copied_tables(tables: Iterable[Table], config: FeedConfig) -> list[Table]:
    """Those of a changefeed's tables that its snapshot takes; none if it has none."""
    return [] if config.snapshot.mode is SnapshotMode.NONE else chosen_tables(tables, config)


def chosen_tables(tables: Iterable[Table], config: FeedConfig) -> list[Table]:
    """Those of which ``snapshot.tables`` takes rows, whatever its mode."""
    taken = CopiedTables(config)
    return [t for t in tables if (t.schema, t.name) in taken]


def check_copyable_beside(
    tables: Iterable[Table], schema: Schema, config: FeedConfig, sink: Sink
) -> None:
    """Raises SnapshotNotPossible, or what ``Sink.repeatable`` raises, if rows of some of ``tables``
    cannot be copied for a changefeed that runs; ``config.snapshot`` says of which.
    """
    what, hint = sink.snapshot_obstacle, "create another changefeed, with a snapshot"
    if not what and sink.single_stream:
        what = "all of its tables are one stream, so that none may be held by itself"
    if not what and config.merging and sink.refuses_keys:
        # They would be written as upserts, and hide that a key is in two shards.
        what = "with shard-mode a key that is there already must stay an error"
        hint = "if no key is in two of the tables, give its URI safe-mode=true for that time"
    if what:
        raise SnapshotNotPossible(
            f"this sink takes no rows that were there before: {what}", object="tables", hint=hint
        )
    sink.repeatable()
    copied = chosen_tables(tables, config)
    if not copied:
        raise SnapshotNotPossible(
            f"no table that is delivered matches {', '.join(config.snapshot.tables or ())}",
            object="tables",
            hint="see cdc cli changefeed query for filter.rules",
        )
    _check_keys(copied)
    _check_tables(copied, mariadb=schema.session.mariadb)
    absent_tables(copied, schema, config, sink)


def check_repairable(tables: Iterable[Table], config: FeedConfig, gone: TargetOnly) -> None:
    """Raises SnapshotNotPossible where rows that only the target has cannot be told by these keys;
    ``config.snapshot`` says of which table they are.
    """
    taken = CopiedTables(config)
    for table in tables:
        if gone.keys and (table.schema, table.name) in taken and not gone.fits(table):
            raise SnapshotNotPossible(
                f"rows were compared by ({', '.join(gone.columns)}), and are delivered by another"
                " key, so rows that only the target has cannot be deleted",
                object=table.full_name,
                hint="delete them at the target by hand",
            )


def _check_keys(copied: Iterable[Table]) -> None:
    """Raises SnapshotNotPossible if rows of some table could not take the place of others."""
    keyless = [t.full_name for t in copied if not t.handle_key]
    if keyless:
        raise SnapshotNotPossible(
            f"no key tells which rows those of {_some(keyless)} replace, so there would be two of"
            " each that is there already",
            object="snapshot.tables",
            hint="add a key, leave them out of snapshot.tables, or copy them when a changefeed is"
            " made, without upserts",
        )


def _check_tables(copied: Iterable[Table], *, mariadb: bool) -> None:
    copied = list(copied)
    # Of other engines no transaction sees all rows as of one moment.
    moving = [t.full_name for t in copied if not t.handle_key and t.engine != "innodb"]
    if moving:
        raise SnapshotNotPossible(
            f"no key tells apart the rows of {_some(moving)}, and their engine is not InnoDB, so"
            " what changes while they are read is lost",
            object="snapshot.tables",
            hint="add a key, leave them out of filter.rules, or of snapshot.tables",
        )
    for table in copied:
        try:
            RowImages(table, "mariadb" if mariadb else "mysql")
        except TidegateError as e:
            raise SnapshotNotPossible(e.message, object=e.object, hint=e.hint) from None


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")


def check_mode_kept(before: FeedConfig, after: FeedConfig) -> None:
    """Raises SnapshotNotPossible if a changefeed that is there is to copy, or no longer to."""
    if before.snapshot.mode is not after.snapshot.mode:
        raise SnapshotNotPossible(
            f"snapshot.mode is {before.snapshot.mode}, and is said when a changefeed is made",
            object="snapshot.mode",
            hint="remove the changefeed and create it anew",
        )
