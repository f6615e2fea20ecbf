"""A verification as a whole: all tables, several at a time, on connections of their own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

from cdc.base.errors import InternalError, InvalidError, TidegateError
from cdc.base.nodes import qualified
from cdc.logical.parts import KnownParts
from cdc.logical.shape import HIDDEN_KEYS
from cdc.schema.session import Session
from cdc.verify.by_fold import ByFold, ByFoldedRows
from cdc.verify.catalogue import Matches, table_info, table_names
from cdc.verify.columns import ValueForm
from cdc.verify.delivery import Delivery
from cdc.verify.fold import Fold, FoldedTable
from cdc.verify.fold_store import FoldStore
from cdc.verify.formats import TOPIC_FORMS
from cdc.verify.given import condition, of_nobody
from cdc.verify.layout import ComparedColumns, Name, TableInfo, group_layout, layout
from cdc.verify.pair import Pair, ServerPair, Upstream
from cdc.verify.report import ComparisonVerdict, Stopped, TableResult
from cdc.verify.sessions import Sql, View
from cdc.verify.table import CompareOptions, compare_table, way_of
from cdc.verify.topic import TopicReader, folded, topic_of
from cdc.verify.widened import Kept, widened
from sink.dispatch.columns import ColumnSelectors
from sink.dispatch.extracted import Given
from sink.dispatch.target import NO_RULES, TargetRouter
from sink.kafka.settings import KafkaSettings

_log = logging.getLogger("verify")
# Their text in a message is not what the server compares.
_NO_KEYS = frozenset({ValueForm.FLOAT, ValueForm.VECTOR, ValueForm.JSON, ValueForm.MIXED})

Target = TypeVar("Target", bound=View)
Made = TypeVar("Made", bound=Pair)


class NothingToVerify(InvalidError):
    """No table of the upstream belongs to the changefeed and to what was asked for."""

    code = "TG:ErrVerifyNoTables"


class VerifyFailed(InternalError):
    """A comparison ended in a way that it does not know."""

    code = "TG:ErrVerifyFailed"


@dataclass(frozen=True)
class Task:
    """What to compare. ``keyless``: also tables without a key. ``mariadb``: of the upstream.

    ``names`` says what the upstream's tables are called at the target. ``widened``: rows of a
    group's tables that lack a column have a value of it there; ``kept``: by the target's name, the
    columns of which the target keeps what a table has dropped. ``given`` says which columns the
    rows of a table have there by its names. ``logical``: the upstream's tables are parts of logical
    ones, which these names are of; ``logical_now`` tells whether that is still so.

    ``scratch`` is a folder for what memory does not take, None for the system's.

    ``open_upstream`` is called once for each worker, from its thread.
    """

    open_upstream: Callable[[], Upstream]
    delivery: Delivery
    matches: Matches
    keyless: bool
    options: CompareOptions
    case_sensitive: bool = False
    mariadb: bool = False
    names: TargetRouter = NO_RULES
    widened: bool = False
    kept: Callable[[Name], Kept] = lambda _: {}
    given: Callable[[str, str], Given] = lambda *_: ()
    logical: KnownParts | None = None
    logical_now: Callable[[], KnownParts | None] = lambda: None
    scratch: Path | None = None

    def source(self, node: str, schema: str, table: str) -> Name | None:
        """What a table of a node is called in the changefeed; None if it is not compared."""
        name = (
            (_inside(node, schema), table)
            if self.logical is None
            else self.logical.of(node, schema, table)
        )
        return name if name is not None and self.matches(*name) else None

    def everywhere(self, node: str, schema: str, table: str) -> bool:
        """Whether each part of its logical table has all rows, as this one has."""
        return self.logical is not None and self.logical.names.everywhere(node, schema, table)


@dataclass(frozen=True)
class ComparedTable:
    """A table of the target, and the servers' tables that become it: several of a group, or parts.

    Where rows have columns ``given`` by names, it is those rows of the target, and ``all_given``
    are those of all tables that become it, with the first of them.
    """

    target: Name
    parts: tuple[TableInfo, ...]
    given: Given = ()
    all_given: tuple[Given, ...] = ()

    @property
    def full_name(self) -> str:
        """The upstream's name, or the target's where several tables have become one."""
        if len(sources := {part.source for part in self.parts}) == 1:
            return ".".join(*sources)
        values = ", ".join(f"{column} {value!r}" for column, value in self.given)
        return ".".join(self.target) + (f" ({values})" if values else "")

    @cached_property
    def rows(self) -> int:
        """How many there are, as the upstream guesses."""
        return sum(part.rows for part in self.parts)


class Run:
    """A running verification; ``results`` grows and changes while it runs."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.stop = threading.Event()
        self.results: list[TableResult] = []
        self.fold: Fold | None = None
        self._guard = threading.Lock()
        self._pairs: set[Pair] = set()

    def interrupt(self) -> None:
        """Stop, and let no query keep it."""
        self.stop.set()
        with self._guard:
            for pair in self._pairs:
                pair.upstream.interrupt()
                pair.target.interrupt()

    def servers(self, open_target: Callable[[], Sql]) -> None:
        """Compare with another server. Raises what concerns all tables."""
        tables = self._tables()
        waiting = iter(list(zip(tables, self.results, strict=True)))

        def work() -> None:
            with self._pair(open_target, ServerPair) as pair:
                while True:
                    with self._guard:
                        task = next(waiting, None)
                    if task is None:
                        return
                    with self._judged(task[1]):
                        self._server_table(pair, *task)

        count = max(1, min(self.task.options.workers, len(tables)))
        with ThreadPoolExecutor(count, thread_name_prefix="verify") as pool:
            workers = [pool.submit(work) for _ in range(count)]
        errors = [e for w in workers if (e := w.exception()) is not None]
        # A server with few connections left is compared by fewer workers.
        if len(errors) == len(workers):
            raise errors[0]

    def topics(self, settings: KafkaSettings) -> None:
        """Compare with the topics of a Kafka sink. Raises what concerns all tables."""
        task = self.task
        selectors = ColumnSelectors(settings.column_selectors, case_sensitive=task.case_sensitive)
        chosen: list[tuple[ComparedColumns, TableResult, FoldedTable]] = []
        for table, result in zip(self._tables(together=True), self.results, strict=True):
            plan, why = delivered(table, selectors, task.given, widened=task.widened)
            made: FoldedTable | None = None
            if not why:
                made, why = folded(
                    settings,
                    table.parts,
                    plan.identity,
                    whole=task.options.whole,
                    case_sensitive=task.case_sensitive,
                )
            if made is None or _NO_KEYS & {c.form for c in plan.key}:
                result.verdict = ComparisonVerdict.SKIPPED
                result.notes.append(why or "the type of its key cannot be looked up by its text")
            else:
                chosen.append((plan, result, made))
        if not chosen:
            return
        session = Session(mariadb=task.mariadb)
        wanted = {plan.target: made for plan, _, made in chosen}
        topic = partial(topic_of, settings, case_sensitive=task.case_sensitive)
        first = {topic(*source) for plan, _, _ in chosen for source in plan.sources}
        with closing(FoldStore(task.scratch)) as store:
            form = TOPIC_FORMS[settings.protocol]
            self.fold = fold = Fold(wanted, store, form, session)
            open_topics = partial(TopicReader, settings, first, topic, fold, self.stop)
            with self._pair(open_topics, Pair) as pair:
                for plan, result, made in chosen:
                    with self._judged(result):
                        self._topic_table(pair, plan, result, made, fold)

    def _server_table(self, pair: ServerPair, table: ComparedTable, result: TableResult) -> None:
        # At a cut: a schema change that the upstream's tables were seen behind has come, and so has
        # what is written of columns that were dropped.
        pair.fresh()
        theirs = table_info(pair.target_server, *table.target)
        if theirs is None:
            result.structure.append("the target has no such table, or hides it from its user")
            result.judge()
            return
        theirs = _without(theirs, table.given)
        if len(table.parts) == 1:
            plan, result.structure = layout(table.parts[0], theirs)
        else:
            plan, structure, why = group_layout(table.parts, theirs, widened=self.task.widened)
            if why:
                result.verdict = ComparisonVerdict.SKIPPED
                result.notes.append(why)
                return
            result.structure = structure
            kept = self.task.kept(table.target) if self.task.widened else {}
            plan, notes = widened(
                plan, table.parts, theirs, pair.upstream.server, pair.target_server, kept
            )
            result.notes += notes
        plan = replace(plan, condition=condition(table.given))
        if table.all_given:
            result.structure += of_nobody(pair.target_server, table.target, table.all_given)
        compare_table(pair, plan, way_of(pair, plan, self.task.options), self.task.options, result)
        self._unless_moved(pair, plan, result)

    def _topic_table(
        self,
        pair: Pair,
        plan: ComparedColumns,
        result: TableResult,
        made: FoldedTable,
        fold: Fold,
    ) -> None:
        options, form, store = self.task.options, fold.topic_form, fold.store
        pair.fresh()
        if made.unsure:
            result.verdict = ComparisonVerdict.SKIPPED
            result.notes.append(made.unsure)
        elif plan.key:
            way = ByFold(
                pair,
                plan,
                made,
                form,
                store,
                options.chunk_rows,
                options.whole,
                widened=self.task.widened,
            )
            compare_table(pair, plan, way, options, result)
        else:
            compare_table(pair, plan, ByFoldedRows(pair, plan, made, form, store), options, result)
        self._unless_moved(pair, plan, result)

    def _unless_moved(self, pair: Pair, plan: ComparedColumns, result: TableResult) -> None:
        """Differences count where the parts that were read are those of the table still.

        Of a part that has moved rows are read twice, or not at all.
        """
        known = self.task.logical
        if known is None or result.verdict is not ComparisonVerdict.DIFFERENT:
            return
        # Nothing is repaired of which that cannot be told.
        repair, result.repair = result.repair, None
        # Behind a new cut the log tells what the servers had done by the end of the reading.
        pair.renew()
        now = self.task.logical_now()
        if now is not None and all(known.same(now, source) for source in plan.sources):
            result.repair = repair
        else:
            result.prove_nothing("its parts have moved while it was compared: verify it again")

    def _tables(self, *, together: bool = False) -> list[ComparedTable]:
        """What is compared. ``together``: also tables whose rows have other values by their names.

        Of messages all are read anyway, of a server those of one table can be asked for.
        """
        upstream = self.task.open_upstream()
        parts: dict[Name, list[TableInfo]] = {}
        try:
            for node in upstream.nodes:
                self._of_node(upstream, node, parts)
        finally:
            upstream.close()
        if not parts:
            raise NothingToVerify(
                "no table of the upstream matches",
                hint="see filter.rules of the changefeed, --table, and the upstream user's grants",
            )
        groups = self.task.names.groups(parts)
        tables = []
        for target, names in groups.items():
            by_given: dict[Given, list[TableInfo]] = {}
            for name in names:
                given = () if together else self.task.given(*name)
                by_given.setdefault(given, []).extend(parts[name])
            every = tuple(by_given) if by_given.keys() != {()} else ()
            for given, several in by_given.items():
                tables.append(ComparedTable(target, tuple(several), given, every))
                every = ()
        # The largest first, so that no worker is left alone with it at the end.
        tables.sort(key=lambda t: (-t.rows, t.full_name))
        self.results = [TableResult(t.full_name, rows=t.rows) for t in tables]
        return tables

    def _of_node(self, upstream: Upstream, node: str, found: dict[Name, list[TableInfo]]) -> None:
        """Add the tables of a node to those that were ``found``, by their names in the changefeed.

        Of a table each part of which has all rows it is one part.
        """
        task = self.task
        server = upstream.server(_inside(node, ""))
        hidden = HIDDEN_KEYS if task.logical is not None else frozenset()
        names = table_names(
            server, lambda schema, name: task.source(node, schema, name) is not None
        )
        for schema, name in names:
            source = task.source(node, schema, name)
            if source is None or (source in found and task.everywhere(node, schema, name)):
                continue
            info = table_info(server, _inside(node, schema), name, hidden)
            if info is not None and (info.key or task.keyless):
                logical = None if task.logical is None else source
                found.setdefault(source, []).append(replace(info, logical=logical))

    @contextmanager
    def _pair(
        self,
        open_target: Callable[[], Target],
        make: Callable[[Upstream, Target, Delivery, threading.Event], Made],
    ) -> Iterator[Made]:
        upstream = self.task.open_upstream()
        try:
            target = open_target()
        except BaseException:
            upstream.close()
            raise
        pair = make(upstream, target, self.task.delivery, self.stop)
        with self._guard:
            self._pairs.add(pair)
        try:
            yield pair
        finally:
            with self._guard:
                self._pairs.discard(pair)
            pair.close()

    @contextmanager
    def _judged(self, result: TableResult) -> Iterator[None]:
        """An error of one table is that table's verdict."""
        result.verdict = ComparisonVerdict.RUNNING
        began_s = time.monotonic()
        try:
            yield
        except Stopped:
            result.verdict = ComparisonVerdict.STOPPED
        except TidegateError as error:
            result.verdict = ComparisonVerdict.FAILED
            result.notes.append(str(error))
            if self.stop.is_set():
                result.verdict, result.notes = ComparisonVerdict.STOPPED, []
        except Exception as error:
            _log.exception("table %s: verification failed", result.table)
            result.verdict = ComparisonVerdict.FAILED
            result.notes.append(str(VerifyFailed(type(error).__name__, object=result.table)))
        finally:
            result.seconds = round(time.monotonic() - began_s, 3)


def _inside(node: str, schema: str) -> str:
    """What a node's database is called, where the upstream has several."""
    return qualified(node, schema) if node else schema


def _without(table: TableInfo, given: Given) -> TableInfo:
    names = {column.lower() for column, _ in given}
    kept = tuple(c for c in table.columns if c.name.lower() not in names)
    return replace(table, columns=kept)


def delivered(
    table: ComparedTable,
    selectors: ColumnSelectors,
    given: Callable[[str, str], Given] = lambda *_: (),
    *,
    widened: bool,
) -> tuple[ComparedColumns, str]:
    """How a table is compared with its messages, or why it cannot be."""
    parts = []
    for part in table.parts:
        names = [c.name for c in part.columns]
        selected = {n.lower() for n in selectors.names(*part.source, names)}
        if not {k.lower() for k in part.key} <= selected:
            return layout(part, part)[0], "column-selectors leave its key out of its messages"
        parts.append(
            replace(part, columns=tuple(c for c in part.columns if c.name.lower() in selected))
        )
    every = {c.name.lower(): c for part in parts for c in part.columns}
    told = replace(parts[0], columns=tuple(every.values()))
    plan, _, why = group_layout(parts, told, widened=widened)
    if plan.lacking and not plan.key:
        why = why or "its tables have different columns, and no key"
    # What a table lacks its messages do not have either.
    absent = {n for names in plan.lacking.values() for n in names}
    filled = {n: c.filled("~", None) for c in plan.columns if (n := c.name.lower()) in absent}
    by_part = {(p.schema, p.name): values for p in parts if (values := given(*p.source))}
    if len({tuple(n for n, _ in by_part.get(part, ())) for part in plan.parts}) > 1:
        why = why or "its tables have different columns out of their names"
    return replace(plan, target=table.target, filled=filled, given=by_part), why
