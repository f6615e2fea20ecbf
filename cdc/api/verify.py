"""``/api/v2/changefeeds/{id}/verifications``: not in TiCDC."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from cdc.api.answers import Empty, Page
from cdc.api.changefeed_models import FeedError
from cdc.api.ddl import ddls_of
from cdc.api.paging import AskedPart, ListPart
from cdc.api.snapshots import SnapshotOut
from cdc.coord.messages import ErrorInfo, FeedState
from cdc.schema.tokens import quoted
from cdc.server.capture import Capture
from cdc.verify.delivery import FeedProgress
from cdc.verify.job import Job
from cdc.verify.opening import OpenedFeed, open_job
from cdc.verify.repair import RowsToRepair
from cdc.verify.report import ComparisonVerdict
from cdc.verify.table import CompareOptions
from owner import admin
from owner.orders import ordered
from owner.requests import NewCopy

_RUNNING = frozenset({FeedState.NORMAL, FeedState.WARNING, FeedState.PENDING})
_ALL_TABLES = ListPart()
_NO_TABLES = ListPart(offset=2**53)


class StartVerification(BaseModel):
    """``POST /changefeeds/{id}/verifications``; ``tables``: patterns as in ``filter.rules``."""

    model_config = ConfigDict(extra="forbid")

    tables: list[str] = Field(default_factory=list)
    limit: int = Field(default=20, ge=0, le=10_000)
    workers: int = Field(default=4, ge=1, le=64)
    chunk_rows: int = Field(default=10_000, ge=100, le=1_000_000)
    rechecks: int = Field(default=5, ge=0, le=100)
    whole: bool = False
    wait_s: float = Field(default=60.0, gt=0, le=86_400)

    def options(self) -> CompareOptions:
        """As the verification takes them."""
        return CompareOptions(**self.model_dump(exclude={"tables"}))


class RepairPlan(BaseModel):
    """How many rows would be brought again, and how many of them the upstream does not have."""

    rows: int
    target_only: int


class VerifiedTable(BaseModel):
    """One table; see ``cdc.verify.report``. ``repair`` is None where nothing can be repaired."""

    table: str
    verdict: str
    exact: bool
    rows: int
    done: int
    upstream_rows: int
    target_rows: int
    different: int
    unsettled: int
    unseen: int
    more: bool
    differences: list[dict[str, Any]]
    structure: list[str]
    notes: list[str]
    seconds: float
    repair: RepairPlan | None


class Verification(BaseModel):
    """How far a verification is. ``equal`` and ``exact`` are about finished ones.

    ``messages``: of topics, read so far. ``tables`` are those that were asked for, ``verdicts``
    counts all of them.
    """

    id: str
    changefeed_id: str
    state: str
    equal: bool
    exact: bool
    seconds: float
    messages: int
    verdicts: dict[str, int]
    tables: list[VerifiedTable]
    error: FeedError | None

    @classmethod
    def of(cls, job: Job, part: ListPart = _ALL_TABLES, verdict: str = "all") -> Verification:
        """From a job, with the tables of this part that have this verdict."""
        view = job.view()
        error = ErrorInfo(**view.pop("error")) if view["error"] else view.pop("error")
        every = view.pop("tables")
        asked = [t for t in every if verdict in ("all", t["verdict"]) and part.has(t["table"])]
        verdicts = Counter(str(t["verdict"]) for t in every)
        return cls(
            **view, tables=list(part.of(asked)), verdicts=verdicts, error=FeedError.of(error)
        )


def router(capture: Capture) -> APIRouter:
    """The routes over one capture."""
    routes = APIRouter(prefix="/changefeeds/{feed}/verifications", tags=["changefeed"])
    jobs = capture.verifications

    @routes.post("")
    def start(feed: str, asked: StartVerification) -> Verification:
        make = partial(open_job, _feed(capture, feed), asked.tables, asked.options())
        return Verification.of(jobs.start(feed, make))

    @routes.get("")
    def list_verifications(feed: str) -> Page[Verification]:
        """The last ones of this capture, newest first, each without its tables."""
        admin.get(capture.store, capture.keys, feed)
        return Page.of([Verification.of(job, _NO_TABLES) for job in jobs.of(feed)])

    @routes.get("/{id}")
    def query(
        feed: str,
        id: str,
        part: AskedPart,
        verdict: Literal["all"] | ComparisonVerdict = "all",
    ) -> Verification:
        return Verification.of(jobs.get(feed, id), part, verdict)

    @routes.post("/{id}/repair")
    def repair(feed: str, id: str) -> Page[SnapshotOut]:
        """Order the rows that differ to be brought again, a snapshot for each table."""
        made = [
            capture.operations.copy_rows(feed, _order(rows))
            for rows in jobs.get(feed, id).take_repairs()
        ]
        known = ordered(capture.store, capture.keys, feed)
        return Page.of([SnapshotOut.of(order, known.status(order.id)) for order in made])

    @routes.delete("/{id}")
    def stop(feed: str, id: str) -> Empty:
        jobs.get(feed, id).stop()
        return Empty()

    return routes


def _order(rows: RowsToRepair) -> NewCopy:
    return NewCopy(
        (quoted(rows.schema, rows.name),),
        rows.condition,
        repairs=rows.rows,
        key=rows.key,
        target_only=rows.target_only,
    )


def _feed(capture: Capture, name: str) -> OpenedFeed:
    store, keys = capture.store, capture.keys
    info = admin.get(store, keys, name)[1]

    def progress() -> FeedProgress:
        now = admin.get(store, keys, name)[1]
        return FeedProgress(admin.status(store, keys, now).checkpoint_ts, now.state in _RUNNING)

    return OpenedFeed(
        info,
        capture.upstreams.info(info.upstream),
        capture.upstreams.log_folder(info.upstream),
        progress,
        capture.settings.source,
        capture.clock,
        lambda: ddls_of(capture, name)[1].shard_remnants,
        capture.data_dir,
    )
