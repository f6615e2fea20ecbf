"""One capture: what a ``cdc server`` process is made of, and the order of its beginning and end."""

from __future__ import annotations

import json
import logging
import os
import threading
import uuid
from pathlib import Path

import cdc
from cdc.base.clock import Clock
from cdc.base.errors import InternalError, TransientError
from cdc.base.parts import Parts
from cdc.base.ts import Ts
from cdc.changelog.reader import ChangeLog
from cdc.coord import draining
from cdc.coord.feed_config import FeedConfig
from cdc.coord.keys import Keys
from cdc.coord.measured import MeasuredStore
from cdc.coord.messages import CaptureInfo, CopiedRows, FeedInfo
from cdc.coord.opening import EMBEDDED, open_store
from cdc.coord.stored import read
from cdc.server import new_tables
from cdc.server.api_tokens import ApiTokens
from cdc.server.audit import AuditLog
from cdc.server.data_dir import DataDir
from cdc.server.lenders import Lenders, TaskTaker
from cdc.server.log_server import open_endpoint
from cdc.server.log_source import LogSource
from cdc.server.metrics import Metrics
from cdc.server.peers import Peers
from cdc.server.placed import PlacedGuards, PlacedHere
from cdc.server.session import CaptureSession, end_earlier, note_lease
from cdc.server.settings import ServerSettings
from cdc.server.tracing import export_traces
from cdc.server.upstreams import Upstreams
from cdc.verify.job import Jobs
from owner.ddl_log import DdlLogs
from owner.guards import Guards, OwnersGuards
from owner.operations import Operations
from owner.placing import PlacementRefused, Placing
from owner.retry import RetryPolicy
from owner.runner import OwnerRunner
from processor.acknowledged import note_logs
from processor.jobs import JobRunner
from processor.lending import BorrowedJobs, LentWorkers
from processor.resident.jobs import ResidentJobs
from processor.resident.spawner import Spawner
from processor.runner import ProcessorRunner
from processor.spark.context import ContextStart
from processor.spark.session import SparkRunner
from sink.contract import RECOVERY_BITS
from sink.open import sink_of
from sink.schema_change import SchemaChanger
from sink.sync_points import SyncPoints

# A stop while Spark starts waits for it, within the ten seconds that a stop may take.
_SPARK_STOP_S = 4.0

_log = logging.getLogger("capture")


class CaptureUnhealthy(InternalError):
    """A part of the capture has ended although it should run."""

    code = "TG:ErrCaptureUnhealthy"


class CaptureNotReady(TransientError):
    """The capture has started, but cannot deliver yet."""

    code = "TG:ErrCaptureNotReady"


class CaptureStandsBy(TransientError):
    """Another capture of the cluster is the owner."""

    code = "TG:ErrNotOwner"


class Capture:
    """Store, session, upstreams, owner and processor of one process.

    In a cluster each pulls and delivers the upstreams that the owner has placed at it; one that is
    ``drained`` leaves that to the others. ``address`` is where its API can be reached. Nothing
    starts before :meth:`start`, but what ``begun`` says; a capture is not started twice. ``lost``
    is set when the session or the ownership is gone, or a log must be made anew,
    and the process must begin again.
    """

    def __init__(
        self,
        settings: ServerSettings,
        data_dir: DataDir,
        address: str,
        source: LogSource,
        clock: Clock,
        *,
        drained: bool = False,
        begun: ContextStart | None = None,
        spawner: Spawner | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.id = str(uuid.uuid4())
        self.keys = Keys(settings.cluster_id)
        self.parts = Parts()
        self.metrics = Metrics(clock, self.parts, data_dir.path, settings.changelog)
        self.lost = threading.Event()
        self._ready = threading.Event()
        self.stopping = False
        self._dir = data_dir
        # In the embedded store there is no other capture that anything could be placed at.
        self.clustered = settings.store != EMBEDDED
        self.store = MeasuredStore(open_store(settings.store, self._dir.store, clock), clock)
        self.tokens = ApiTokens(self.store, self.keys, clock)
        self.audit = AuditLog(self.store, self.keys, clock, self.id)
        end_earlier(self.store, settings.store, self._dir.session)
        info = CaptureInfo(
            id=self.id,
            address=settings.advertise_addr or address,
            version=cdc.__version__,
            cluster_id=settings.cluster_id,
            pid=os.getpid(),
            start_time_ms=clock.now_ms(),
            logs=data_dir.origins() if self.clustered else {},
        )
        self._session = CaptureSession(
            self.store,
            self.keys,
            info,
            settings.capture_session_ttl,
            on_owner=self._become_owner,
            on_lost=self.lost.set,
            ready=self._ready.is_set,
            lends=lambda: self._spark.parallelism if self.tasks is not None else 0,
            handed_over=lambda: self.upstreams.handed_over(),
            drained=drained,
            clock=clock,
            parts=self.parts,
        )
        note_lease(self._dir.session, settings.store, self._session.lease)
        self.peers = (
            Peers(self.store, self.keys, self.id, settings.security, clock)
            if self.clustered
            else None
        )
        self._placed = PlacedHere(self.store, self.keys, self.id, self._log_end, clock)
        self.upstreams = Upstreams(
            self.store,
            self.keys,
            self.id,
            self._session.lease,
            source,
            self._dir.log,
            clock,
            self.metrics,
            self.parts,
            self._placed if self.clustered else None,
        )
        self.metrics.capture.upstreams = self.upstreams.counts
        self._ddl_logs = DdlLogs(self.upstreams.log_folder, self.upstreams.info)
        self.operations = Operations(
            self.store,
            self.keys,
            clock,
            self.upstreams,
            self._ddl_logs,
            forget_metrics=self.metrics.forget_feed,
            slots=self._slots,
        )
        self.verifications = Jobs()
        self._owner: OwnerRunner | None = None
        self._placing: Placing | None = None
        self._endpoint = open_endpoint(settings, self._dir.logs, self.parts)
        access = self._endpoint.access if self._endpoint is not None else None
        # A local master's workers see the files.
        theirs = None if settings.processor.local else access
        self._spark = SparkRunner(settings.processor, self._dir.spark, theirs, begun, clock)
        jobs: JobRunner = self._spark
        self._resident: ResidentJobs | None = None
        if spawner is not None:
            jobs = self._resident = ResidentJobs(
                self._spark,
                self._spark,
                spawner,
                settings.processor.single_task_bytes,
                jvm_after_s=settings.processor.spark_start_after_s,
                monotonic=clock.monotonic,
            )
        # Only where others deliver meanwhile.
        self._spark_waits = spawner is not None and settings.processor.spark_waits
        self._workers = LentWorkers(jobs, clock)
        self.tasks: TaskTaker | None = None
        across: JobRunner | None = None
        if self.peers is not None and settings.processor.local:
            lenders = Lenders(self.store, self.keys, self.peers, clock)
            # To lend needs no log that others read, to borrow does.
            if settings.processor.lend_workers:
                self.tasks = TaskTaker(lenders, self.peers, self._workers.lend)
            if access is not None:
                across = BorrowedJobs(self._workers, self.id, lenders.now, access, clock)
        self.metrics.capture.spark_up = lambda: not self._spark_missing()
        self._processor = ProcessorRunner(
            self.store,
            self.keys,
            self.id,
            self.upstreams.log_folder,
            self._workers,
            settings.copying_processor,
            clock,
            self.parts,
            self._begin_log_anew,
            settings.source,
            across,
        )
        if self.clustered:
            guards = PlacedGuards(self.upstreams.claims, lambda: self._session.held)
            self._owner = self._make_owner(guards)
            self._placed.by(self._owner, self._processor, self._ddl_logs)
        self._spark_master = settings.processor.spark_master
        self._guard = threading.Lock()
        self._disowning = threading.Lock()
        self._delivers = False
        self._starter = threading.Thread(
            target=self._start_processor, name="spark-start", daemon=True
        )

    @property
    def is_owner(self) -> bool:
        """Whether this capture is the owner."""
        return self._session.is_owner

    @property
    def drained(self) -> bool:
        """Whether it was told to own nothing, and has come to know it."""
        return self._session.drained

    @property
    def data_dir(self) -> Path:
        """Where everything of this capture lies."""
        return self._dir.path

    def check_health(self) -> None:
        """Raises :class:`CaptureUnhealthy` that names the parts that do not do their work.

        Of what is only on its way, which is Spark, :class:`CaptureNotReady`.
        """
        troubles = self._troubles()
        if troubles:
            raise CaptureUnhealthy(
                "; ".join(f"{name}: {what}" for name, what in troubles.items()),
                object=f"capture {self.id}",
                hint="the capture's log has the details; what can be tried again is",
            )
        self._check_started()

    def check_ready(self) -> None:
        """Raises CaptureNotReady or CaptureStandsBy unless changefeeds can be delivered now."""
        troubles = self._troubles()
        if troubles:
            raise self._not_ready(f"{', '.join(troubles)} cannot do their work")
        self._check_started()
        self.check_owner()

    def _troubles(self) -> dict[str, str]:
        found = self.parts.troubles()
        if self.lost.is_set():
            found["session"] = "lost"
        decides = self.clustered or self.is_owner
        if self._owner is not None and decides and self._owner.over:
            found["owner"] = "has ended"
        if self._ready.is_set() and self._spark_missing():
            found["Spark"] = "its JVM has ended, or did not start; the next window tries again"
        return found

    def _spark_missing(self) -> bool:
        """Whether a JVM that should run does not."""
        return self._spark.broken if self._spark_waits else not self._spark.up

    def _check_started(self) -> None:
        if self.stopping:
            raise self._not_ready("it is being stopped")
        if not self._ready.is_set():
            raise self._not_ready("Spark is being started")

    def _not_ready(self, why: str) -> CaptureNotReady:
        return CaptureNotReady(why, object=f"capture {self.id}", hint="ask again in a moment")

    def start(self) -> None:
        """Start everything; returns before Spark is ready, which takes some seconds.

        Where it waits for what needs it, this capture is ready without it.
        """
        _log.info("capture %s: starting, data in %s", self.id, self._dir.path)
        self._end_traces = export_traces(self.settings.tracing, self.id)
        if self._endpoint is not None:
            self._endpoint.start()
        self._session.start()
        if self.clustered:
            assert self._owner is not None
            self.upstreams.start()
            self._owner.start()
        self._starter.start()

    def _log_end(self, upstream: str) -> Ts:
        """Up to where an upstream's log is resolved."""
        log = ChangeLog.open(self._dir.log(upstream))
        try:
            return log.state.resolved_ts
        finally:
            log.close()

    def _slots(self, feed: str) -> int:
        """How many transactional ids a changefeed has ever used."""
        entry = self.store.get(self.keys.slots(feed))
        return int(json.loads(entry.value)["slots"]) if entry else 0

    def _start_processor(self) -> None:
        try:
            if not self._spark_waits:
                self._spark.start()
        except Exception:
            _log.exception("Spark did not start with master %s", self._spark_master)
            self.lost.set()
            return
        if not self.stopping:
            self._ready.set()
            self._deliver()
            self._session.announce_ready()
            _log.info("capture %s: ready", self.id)

    def _deliver(self) -> None:
        """Begin to deliver, once Spark is there and this capture may have something to deliver."""
        with self._guard:
            if self._delivers or self._owner is None or not self._ready.is_set():
                return
            self._delivers = True
            self._processor.start()

    def _begin_log_anew(self, upstream: str) -> None:
        """A log of ours is not the one that positions belong to: begin with another.

        In a cluster only what reads it ends; a capture that is alone begins anew whole.
        """
        if self.clustered:
            _log.warning("upstream %s: its log is to be made anew", upstream)
            self.upstreams.make_log_anew(upstream)
            return
        # Changefeeds may find it at one time, each in its own thread.
        with self._disowning:
            if not self.lost.is_set():
                _log.warning("upstream %s: its log is to be made anew", upstream)
                self.upstreams.disown_log(upstream)
                self.lost.set()

    def stop(self) -> None:
        """Stop everything in reverse order; what is delivered is in the ledger, so no haste."""
        self.stopping = True
        self.verifications.stop()
        self._starter.join(_SPARK_STOP_S)
        self._placed.stop()
        if self._placing is not None:
            self._placing.stop()
        if self._owner is not None:
            self._owner.stop()
        if self._delivers:
            self._processor.stop(3.0)
        if self._resident is not None:
            self._resident.stop()
        self.upstreams.stop(3.0)
        # Before Spark, which takes seconds: another capture can go on meanwhile.
        self._session.stop()
        if self._ready.is_set():
            self._spark.stop()
        if self._endpoint is not None:
            self._endpoint.stop()
        self._end_traces()
        self.store.close()
        self._dir.close()
        _log.info("capture %s: stopped", self.id)

    def resign(self) -> None:
        """Let another capture be the owner; this one begins anew, and stands by.

        Raises CaptureStandsBy, NoOtherCapture.
        """
        self.check_owner()
        draining.check_others(self.store, self.keys, self.id)
        _log.info("resigns")
        self.lost.set()

    def check_owner(self) -> None:
        """Raises :class:`CaptureStandsBy` unless this capture is the owner."""
        if self.is_owner:
            return
        entry = self.store.get(self.keys.owner)
        known = self.store.get(self.keys.capture(entry.value.decode())) if entry else None
        where = read(known, CaptureInfo).address if known else ""
        raise CaptureStandsBy(
            "another capture of the cluster is the owner" if where else "there is no owner yet",
            object=f"capture {self.id}",
            hint=f"ask the one at {where}" if where else "ask again in a moment",
        )

    def check_clustered(self) -> None:
        """Raises PlacementRefused where there is no other capture, and never is."""
        if not self.clustered:
            raise PlacementRefused(
                "with the embedded store there is one capture",
                object=f"capture {self.id}",
                hint="several captures make a cluster over an etcd: --store etcd://…",
            )

    def check_changes(self) -> None:
        """Raises :class:`CaptureStandsBy` unless changes can be made here.

        In a cluster they can be made anywhere, or are forwarded to where they can.
        """
        if not self.clustered:
            self.check_owner()

    def _become_owner(self, token: int) -> None:
        self.metrics.capture.is_owner = True
        if self.clustered:
            self._placing = Placing(
                self.store,
                self.keys,
                self.id,
                token,
                self.clock,
                self.parts,
                self.settings.owner.even_after,
                self.settings.capture_session_ttl,
                self.lost.is_set,
            )
            self._placing.start()
            return
        note_logs(self.store, self.keys, self._log_end)
        self._owner = self._make_owner(OwnersGuards(self.store, self.keys, token))
        self.upstreams.start()
        self._owner.start()
        self._deliver()

    def _make_owner(self, guards: Guards) -> OwnerRunner:
        owner = self.settings.owner
        return OwnerRunner(
            self.store,
            self.keys,
            guards,
            self._ddl_logs.log,
            _open_changer,
            self.clock,
            policy=RetryPolicy(owner.error_backoff_first, max_s=owner.error_backoff_max),
            observer=self.metrics,
            parts=self.parts,
            only=self.id,
            make_tables=self._make_tables,
            open_points=_open_points,
        )

    def _make_tables(self, info: FeedInfo) -> None:
        def copied() -> CopiedRows | None:
            entry = self.store.get(self.keys.copied_rows(info.id))
            return read(entry, CopiedRows) if entry is not None else None

        new_tables.make(info, lambda ts: self.upstreams.schema_at(info.upstream, ts)[1], copied)


def _open_changer(info: FeedInfo) -> SchemaChanger:
    config = FeedConfig.model_validate(info.config)
    sink = sink_of(info.sink_uri, config)
    return sink.changer(info.ledger_id, info.epoch << RECOVERY_BITS)


def _open_points(info: FeedInfo) -> SyncPoints:
    config = FeedConfig.model_validate(info.config)
    sink = sink_of(info.sink_uri, config)
    epoch = info.epoch << RECOVERY_BITS
    return sink.sync_points(info.ledger_id, epoch, config.sync_point_retention)
