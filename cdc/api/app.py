"""The API of a capture as one ASGI application."""

from __future__ import annotations

import os
from functools import partial

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

import cdc
from cdc.api import (
    audit,
    callers,
    changefeeds,
    ddl,
    errors,
    explain,
    feed_tables,
    metadata,
    openapi,
    progress,
    roles,
    shard_ddl,
    snapshots,
    tokens,
    upstreams,
    verify,
)
from cdc.api.answers import Empty, Page, Redacted, ServerStatus, Tso
from cdc.api.assigned import assignments
from cdc.api.audited import Audited
from cdc.api.capture_models import CaptureOut, Drained
from cdc.api.changefeed_models import Processor, ProcessorTables
from cdc.api.console import serving
from cdc.api.failures import Failures
from cdc.api.forwarding import ForwardingMiddleware
from cdc.api.guard import READS, Guard, GuardMiddleware
from cdc.api.lent_tasks import LentTasksMiddleware
from cdc.api.request_id import RequestIdMiddleware
from cdc.api.requests import LogLevelChange, RedactionChange
from cdc.api.swagger import serving as swagger
from cdc.base.ts import compose
from cdc.coord import draining, election
from cdc.coord.messages import CaptureInfo
from cdc.coord.stored import readable
from cdc.server.api_tokens import Caller
from cdc.server.capture import Capture
from cdc.server.logging_setup import redaction, set_level
from cdc.server.peers import Peers
from owner import admin, placing


def make(capture: Capture, guard: Guard, peers: Peers | None = None) -> FastAPI:
    """``/api/v2`` and ``/metrics`` over a running capture, for those whom ``guard`` lets in.

    With ``peers`` requests that belong to another capture are forwarded there.
    """
    # FastAPI's own pages would run scripts of a foreign host where everything may be done.
    app = FastAPI(openapi_url=openapi.PATH, docs_url=None, redoc_url=None)
    app.add_middleware(
        audit.AuditMiddleware, log=capture.audit, audited=Audited(capture), refuse=errors.answer
    )
    if peers is not None:
        app.add_middleware(ForwardingMiddleware, peers=peers, refuse=errors.answer)

    def known(token: str) -> Caller | None:
        forwarded = peers.caller(token) if peers is not None else None
        return forwarded or capture.tokens.caller(token)

    app.add_middleware(
        GuardMiddleware,
        guard=guard,
        known=known,
        failures=Failures(capture.clock),
        refuse=errors.answer,
        forbidden=partial(audit.forbidden, capture.audit),
    )
    # Behind the guard's, so around it: what is refused has an id too.
    app.add_middleware(RequestIdMiddleware)
    if capture.tasks is not None:
        app.add_middleware(LentTasksMiddleware, tasks=capture.tasks, refuse=errors.answer)
    errors.install(app)
    openapi.install(app)
    routes = APIRouter(prefix="/api/v2")

    def by_owner(request: Request) -> None:
        if request.method not in READS:
            capture.check_changes()

    changes = [Depends(by_owner)]
    served = (changefeeds, upstreams, verify, explain, ddl, shard_ddl, snapshots, feed_tables)
    for of in served:
        routes.include_router(of.router(capture), dependencies=changes)
    routes.include_router(tokens.router(capture))
    routes.include_router(audit.router(capture))
    routes.include_router(metadata.router(capture))
    routes.include_router(callers.router())
    store, keys = capture.store, capture.keys

    @routes.get("/status", tags=["common"])
    def status() -> ServerStatus:
        return ServerStatus(
            version=cdc.__version__,
            id=capture.id,
            cluster_id=keys.cluster,
            pid=os.getpid(),
            is_owner=capture.is_owner,
            liveness=1 if capture.stopping else 0,
        )

    @routes.get("/health", tags=["common"])
    def health() -> Empty:
        capture.check_health()
        return Empty()

    @routes.get("/ready", tags=["common"])
    def ready() -> Empty:
        capture.check_ready()
        return Empty()

    @routes.get("/captures", tags=["capture"])
    def captures() -> Page[CaptureOut]:
        owner = store.get(keys.owner)
        name = owner.value.decode() if owner else ""
        _, entries = store.range(keys.capture_prefix)
        drained = election.all_drained(store, keys)
        placed = placing.placements(store, keys).values() if capture.clustered else ()
        return Page.of(
            [CaptureOut.of(i, name, drained, placed) for _, i in readable(entries, CaptureInfo)]
        )

    @routes.put("/captures/{capture_id}/drain", tags=["capture"], status_code=202)
    def drain(capture_id: str) -> Drained:
        capture.check_changes()
        running = [a for c, a in assignments(capture) if c == capture_id and a.run]
        infos = [admin.get(store, keys, a.feed)[1] for a in running]
        count = sum(len(progress.table_ids(capture, info)) for info in infos)
        draining.drain(store, keys, capture_id)
        return Drained(current_table_count=count)

    @routes.post("/owner/resign", tags=["owner"])
    def resign() -> Empty:
        capture.resign()
        return Empty()

    @routes.get("/processors", tags=["processor"])
    def processors() -> Page[Processor]:
        return Page.of(
            [
                Processor(changefeed_id=a.feed, capture_id=c)
                for c, a in assignments(capture)
                if a.run
            ]
        )

    @routes.get("/processors/{feed}/{capture_id}", tags=["processor"])
    def processor(feed: str, capture_id: str) -> ProcessorTables:
        info = admin.get(store, keys, feed)[1]
        runs = any(c == capture_id and a.feed == feed and a.run for c, a in assignments(capture))
        tables = progress.table_ids(capture, info) if runs else {}
        return ProcessorTables(table_ids=list(tables), tables=sorted(set(tables.values())))

    @routes.post("/tso", tags=["common"])
    def tso() -> Tso:
        now_ms = capture.clock.now_ms()
        return Tso(timestamp=now_ms, logic_time=0, tso=compose(now_ms))

    @routes.post("/log", tags=["common"])
    def log(asked: LogLevelChange) -> Empty:
        set_level(asked.log_level, asked.logger)
        return Empty()

    @routes.post("/log/redact", tags=["common"])
    def redact(asked: RedactionChange) -> Redacted:
        before = redaction.tighten(asked.redact_info_log)
        return Redacted(previous_mode=before, current_mode=asked.redact_info_log)

    @app.get("/metrics", include_in_schema=False)
    def metrics() -> Response:
        return Response(capture.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    app.include_router(routes)
    serving.install(app)
    swagger.install(app)
    roles.check(roles.routes(app))
    return app
