"""What can be asked of a server, and told it, with the types of the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from cdc.api.answers import Page, Redacted, ServerStatus, Tso
from cdc.api.audit_models import AuditOut
from cdc.api.capture_models import CaptureOut, Drained
from cdc.api.changefeed_models import (
    AppliedTable,
    ChangefeedInfo,
    ChangefeedStatus,
    ChangefeedSummary,
    CreatedChangefeed,
    Processor,
    ProcessorTables,
    Synced,
)
from cdc.api.ddl_models import DdlOut, DdlPage
from cdc.api.explain_models import ExplanationOut, TablesOfChangefeed
from cdc.api.metadata_models import StoredOut
from cdc.api.requests import CreateNode, UpdateNode
from cdc.api.shard_ddl_models import ShardDdlPage
from cdc.api.token_models import CreatedToken, TokenOut
from cdc.api.upstream_models import UpstreamOut
from cdc.base.redaction import RedactMode
from cdc.base.ts import Ts
from cdc.client.access import Access
from cdc.client.connection import AnswerUnreadable, Connection
from cdc.client.profiles import chosen

M = TypeVar("M", bound=BaseModel)


class Client(Connection):
    """Operates one server; for what has no method yet there are ``get``, ``post`` … of JSON.

    Without ``access`` the server is what ``cdc cli`` would take: a profile, the environment, or
    this machine's. Raises ServerRefused with the server's own error, ServerUnreachable,
    AnswerLate, AnswerUnreadable, and what :func:`cdc.client.chosen` raises.
    """

    def __init__(self, access: Access | str | None = None) -> None:
        if isinstance(access, str):
            access = chosen(server=access)
        super().__init__(access if access is not None else chosen())

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def status(self) -> ServerStatus:
        """Of the server itself."""
        return _read(ServerStatus, self.get("/status"))

    def tso(self) -> Tso:
        """The present, as the server's clock says."""
        return _read(Tso, self.post("/tso"))

    def now(self) -> Ts:
        """The present as a ts."""
        return self.tso().tso

    def log_level(self, level: str) -> None:
        """How much is logged from now on: ``debug``, ``info``, ``warn``, ``error``."""
        self.post("/log", {"log_level": level})

    def redact_log(self, mode: RedactMode) -> Redacted:
        """How much user data log lines show from now on: only less than they do."""
        return _read(Redacted, self.post("/log/redact", {"redact_info_log": mode}))

    def captures(self) -> list[CaptureOut]:
        """The running servers of the cluster."""
        return _page(CaptureOut, self.get("/captures"))

    def drain(self, capture: str) -> int:
        """Have a capture hand over what it does; how many tables that is."""
        answer = self.put(f"/captures/{_part(capture)}/drain")
        return _read(Drained, answer).current_table_count

    def resign(self) -> None:
        """Have the owner let another capture be it."""
        self.post("/owner/resign")

    def processors(self) -> list[Processor]:
        """Which capture delivers which changefeed."""
        return _page(Processor, self.get("/processors"))

    def processor(self, changefeed: str, capture: str) -> ProcessorTables:
        """The tables that a capture delivers of a changefeed."""
        path = f"/processors/{_part(changefeed)}/{_part(capture)}"
        return _read(ProcessorTables, self.get(path))

    def changefeeds(self, state: str = "") -> list[ChangefeedSummary]:
        """All that have not ended, those in a state, or ``all``."""
        return _page(ChangefeedSummary, self.get("/changefeeds", state=state))

    def changefeed(self, changefeed: str) -> ChangefeedInfo:
        """One in full."""
        return _read(ChangefeedInfo, self.get(_feed(changefeed)))

    def changefeed_status(self, changefeed: str) -> ChangefeedStatus:
        """Its state, how far it is, and its error."""
        return _read(ChangefeedStatus, self.get(f"{_feed(changefeed)}/status"))

    def synced(self, changefeed: str) -> Synced:
        """Whether the target has all that was written upstream."""
        return _read(Synced, self.get(f"{_feed(changefeed)}/synced"))

    def applied(self, changefeed: str) -> list[AppliedTable]:
        """How the sink takes the rows of each table; empty where there is but one way."""
        return _page(AppliedTable, self.get(f"{_feed(changefeed)}/apply"))

    def create_changefeed(
        self,
        upstream: str,
        sink_uri: str,
        changefeed_id: str = "",
        *,
        start_ts: Ts = 0,
        target_ts: Ts = 0,
        replica_config: Mapping[str, Any] | None = None,
        replace_installation: str = "",
    ) -> CreatedChangefeed:
        """Create one; a ``start_ts`` of 0 is now, a ``target_ts`` of 0 never."""
        body = _new(upstream, sink_uri, changefeed_id, start_ts, target_ts, replica_config)
        body["replace_installation"] = replace_installation
        return _read(CreatedChangefeed, self.post("/changefeeds", body))

    def verify_table(
        self,
        upstream: str,
        sink_uri: str = "",
        *,
        start_ts: Ts = 0,
        replica_config: Mapping[str, Any] | None = None,
    ) -> TablesOfChangefeed:
        """The tables that a changefeed of this kind would deliver, and those that it cannot."""
        body = _new(upstream, sink_uri, "", start_ts, 0, replica_config)
        return _read(TablesOfChangefeed, self.post("/verify_table", body))

    def update_changefeed(
        self,
        changefeed: str,
        *,
        sink_uri: str | None = None,
        target_ts: Ts | None = None,
        replica_config: Mapping[str, Any] | None = None,
    ) -> ChangefeedInfo:
        """Change one that is stopped or failed: what is None stays."""
        body = {"sink_uri": sink_uri, "target_ts": target_ts, "replica_config": replica_config}
        given = {name: value for name, value in body.items() if value is not None}
        return _read(ChangefeedInfo, self.put(_feed(changefeed), given))

    def pause(self, changefeed: str) -> None:
        """Stop delivery; it can be resumed."""
        self.post(f"{_feed(changefeed)}/pause")

    def resume(
        self,
        changefeed: str,
        overwrite_checkpoint_ts: Ts | Literal["now"] = 0,
        *,
        rewind: bool = False,
        copy_again: bool = False,
    ) -> None:
        """Deliver again: from the checkpoint, from a ts, or (``rewind``) from where the sink is.

        ``copy_again``: behind rows that were lost, which are copied again.
        """
        body = {
            "overwrite_checkpoint_ts": overwrite_checkpoint_ts,
            "rewind": rewind,
            "copy_again": copy_again,
        }
        self.post(f"{_feed(changefeed)}/resume", body)

    def remove_changefeed(self, changefeed: str) -> None:
        """Remove it and its progress; what has been delivered stays."""
        self.delete(_feed(changefeed))

    def ddls(self, changefeed: str, state: str = "pending") -> DdlPage:
        """Schema changes that wait; ``all``: also the last ones that ended."""
        return _read(DdlPage, self.get(f"{_feed(changefeed)}/ddls", state=state))

    def ddl(self, changefeed: str, ts: Ts) -> DdlOut:
        """One schema change."""
        return _read(DdlOut, self.get(f"{_feed(changefeed)}/ddls/{ts}"))

    def shard_ddls(self, changefeed: str) -> ShardDdlPage:
        """Shard groups whose tables come to a schema change: who has come, who is missing."""
        return _read(ShardDdlPage, self.get(f"{_feed(changefeed)}/shard-ddls"))

    def decide(
        self, changefeed: str, ts: Ts, action: Literal["hold", "approve", "skip"], reason: str = ""
    ) -> DdlOut:
        """Say what is to happen with a schema change."""
        path = f"{_feed(changefeed)}/ddls/{ts}/{action}"
        return _read(DdlOut, self.post(path, {"reason": reason}))

    def upstreams(self) -> list[UpstreamOut]:
        """All upstreams."""
        return _page(UpstreamOut, self.get("/upstreams"))

    def upstream(self, name: str) -> UpstreamOut:
        """One upstream."""
        return _read(UpstreamOut, self.get(f"/upstreams/{_part(name)}"))

    def create_upstream(
        self,
        name: str,
        uri: str = "",
        *,
        nodes: Sequence[CreateNode] = (),
        kind: Literal["shards", "cluster"] = "shards",
        carrier: str = "",
        logical_tables: Sequence[str] = (),
        ca: str | None = None,
        cert: str | None = None,
        key: str | None = None,
        start: str | None = None,
    ) -> UpstreamOut:
        """Register one; the files are the server's, ``start`` a GTID set, file:position or time.

        With ``nodes`` in the place of ``uri`` these servers are one upstream of this ``kind``.
        """
        body: dict[str, Any] = {"name": name, "uri": uri, "start": start}
        body |= {"ca": ca, "cert": cert, "key": key}
        if nodes:
            made = [
                {"name": n.name, "uri": n.uri.get_secret_value(), "start": n.start} for n in nodes
            ]
            body |= {"kind": kind, "carrier": carrier, "nodes": made}
            body["logical_tables"] = list(logical_tables)
        return _read(UpstreamOut, self.post("/upstreams", body))

    def update_upstream(
        self,
        name: str,
        *,
        uri: str | None = None,
        user: str | None = None,
        password: str | None = None,
        ca: str | None = None,
        cert: str | None = None,
        key: str | None = None,
        nodes: Sequence[UpdateNode] = (),
    ) -> UpstreamOut:
        """Reach the same server otherwise: what is None stays, an empty file's name goes."""
        body: dict[str, Any] = {"uri": uri, "user": user, "password": password}
        body |= {"ca": ca, "cert": cert, "key": key}
        body["nodes"] = [
            {
                "name": node.name,
                "uri": node.uri.get_secret_value() if node.uri else None,
                "user": node.user,
                "password": node.password.get_secret_value() if node.password else None,
            }
            for node in nodes
        ]
        return _read(UpstreamOut, self.put(f"/upstreams/{_part(name)}", body))

    def add_node(self, upstream: str, name: str, uri: str, start: str | None = None) -> UpstreamOut:
        """Have another server belong to an upstream of kind ``shards``, from its start on."""
        body = {"name": name, "uri": uri, "start": start}
        return _read(UpstreamOut, self.post(f"/upstreams/{_part(upstream)}/nodes", body))

    def remove_node(self, upstream: str, name: str) -> None:
        """Have a server leave, behind what is pulled of it by now."""
        self.delete(f"/upstreams/{_part(upstream)}/nodes/{_part(name)}")

    def remove_upstream(self, name: str) -> None:
        """Forget one and delete its log."""
        self.delete(f"/upstreams/{_part(name)}")

    def tokens(self) -> list[TokenOut]:
        """All tokens, without their secrets."""
        return _page(TokenOut, self.get("/tokens"))

    def create_token(self, name: str, role: str, expires_in_s: int | None = None) -> CreatedToken:
        """Make one: its ``token`` is shown this once."""
        body: dict[str, Any] = {"name": name, "role": role}
        body |= {} if expires_in_s is None else {"expires_in_s": expires_in_s}
        return _read(CreatedToken, self.post("/tokens", body))

    def revoke_token(self, name: str) -> None:
        """Make one useless, at once."""
        self.delete(f"/tokens/{_part(name)}")

    def audit(self, since: Ts = 0, object: str = "", limit: int = 1000) -> list[AuditOut]:
        """Who has asked for which change: the newest, from the oldest of them on."""
        params = {"since": str(since), "object": object, "limit": str(limit)}
        return _page(AuditOut, self.get("/audit", **params))

    def metadata(self, contains: str = "") -> list[StoredOut]:
        """What the store has under keys with ``contains`` in them, without secrets."""
        return _page(StoredOut, self.get("/unsafe/metadata", contains=contains))

    def explain(self, **asked: Any) -> ExplanationOut:
        """Which rule decides about a table or statement; names as in ``POST /filter/explain``."""
        return _read(ExplanationOut, self.post("/filter/explain", asked))


def _part(name: str) -> str:
    """A name as one part of a path, whatever is in it."""
    return quote(name, safe="")


def _feed(name: str) -> str:
    return f"/changefeeds/{_part(name)}"


def _new(
    upstream: str,
    sink_uri: str,
    changefeed_id: str,
    start_ts: Ts,
    target_ts: Ts,
    replica_config: Mapping[str, Any] | None,
) -> dict[str, Any]:
    return {
        "changefeed_id": changefeed_id,
        "upstream": upstream,
        "sink_uri": sink_uri,
        "start_ts": start_ts,
        "target_ts": target_ts,
        "replica_config": dict(replica_config or {}),
    }


def _read(kind: type[M], answer: Any) -> M:
    try:
        return kind.model_validate(answer)
    except ValidationError as e:
        first = e.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(str(p) for p in first["loc"]) or "answer"
        raise AnswerUnreadable(
            f"the answer is no {kind.__name__}: {where}: {first['type']}",
            hint="take a client of the server's version",
        ) from None


def _page(kind: type[M], answer: Any) -> list[M]:
    return _read(Page[kind], answer).items  # type: ignore[valid-type]
