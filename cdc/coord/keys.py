"""Where each message lies in the store; the layout of TiCDC under our own root."""

from __future__ import annotations

from dataclasses import dataclass

ROOT = "/tidegate/cdc"
NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of one cluster. A name ending in ``_prefix`` is a prefix to range over or watch."""

    cluster: str = "default"

    @property
    def cluster_prefix(self) -> str:
        """All keys of the cluster."""
        return f"{ROOT}/{self.cluster}/"

    @property
    def meta_prefix(self) -> str:
        return self.cluster_prefix + "__cdc_meta__/"

    @property
    def prefix(self) -> str:
        """All that owner, processor and API exchange."""
        return f"{self.cluster_prefix}{NAMESPACE}/"

    @property
    def owner(self) -> str:
        """The owner's capture id, under its lease; its create revision is the fencing token."""
        return self.meta_prefix + "owner"

    def drained(self, capture_id: str) -> str:
        """Says that a capture is to own nothing, under its lease; below the owner's key, so that
        whoever watches that one sees it."""
        return f"{self.owner}/drained/{capture_id}"

    @property
    def installation(self) -> str:
        """The installation's id, see ``cdc.coord.installation``."""
        return self.meta_prefix + "installation"

    @property
    def token_prefix(self) -> str:
        return self.meta_prefix + "token/"

    def token(self, name: str) -> str:
        """``ApiToken``: who may ask what of the API of any capture."""
        return self.token_prefix + name

    def audit_prefix(self, ring: str) -> str:
        return self.meta_prefix + f"audit/{ring}/"

    def audit(self, ring: str, place: int) -> str:
        """``AuditEntry``: the newest of those that have had this place."""
        return f"{self.audit_prefix(ring)}{place:06d}"

    def audit_next(self, ring: str) -> str:
        """The number of the next entry, as text."""
        return self.meta_prefix + f"audit-next/{ring}"

    @property
    def forwarding(self) -> str:
        """The secret by which captures know each other's requests, as text."""
        return self.meta_prefix + "forwarding"

    @property
    def current_log_prefix(self) -> str:
        return self.meta_prefix + "log/current/"

    def current_log(self, name: str) -> str:
        """``CurrentLog``: which log an upstream has."""
        return self.current_log_prefix + name

    def anchor_prefix(self, name: str) -> str:
        return self.meta_prefix + f"log/anchor/{name}/"

    def anchor(self, name: str, ts: int) -> str:
        """``Anchor``: where a new log of an upstream could begin; digits, so that they sort."""
        return f"{self.anchor_prefix(name)}{ts:020d}"

    def schema_prefix(self, name: str) -> str:
        return self.meta_prefix + f"log/schema/{name}/"

    def schema(self, name: str, ts: int, chunk: int) -> str:
        """A piece of the compressed schema snapshot that anchors begin with."""
        return f"{self.schema_prefix(name)}{ts:020d}/{chunk:06d}"

    @property
    def capture_prefix(self) -> str:
        return self.meta_prefix + "capture/"

    def capture(self, capture_id: str) -> str:
        """``CaptureInfo``, under the capture's lease."""
        return self.capture_prefix + capture_id

    @property
    def feed_info_prefix(self) -> str:
        return self.prefix + "changefeed/info/"

    def feed_info(self, feed: str) -> str:
        """``FeedInfo``."""
        return self.feed_info_prefix + feed

    @property
    def feed_status_prefix(self) -> str:
        return self.prefix + "changefeed/status/"

    def feed_status(self, feed: str) -> str:
        """``FeedStatus``."""
        return self.feed_status_prefix + feed

    def feed_ddls(self, feed: str) -> str:
        """``DdlEntries``: the owner's word on schema changes."""
        return self.prefix + f"changefeed/ddl/{feed}"

    def ddl_decisions_prefix(self, feed: str) -> str:
        return self.prefix + f"changefeed/ddl-decision/{feed}/"

    def ddl_decision(self, feed: str, ts: int) -> str:
        """``DdlDecision``: the operator's word on one of them."""
        return self.ddl_decisions_prefix(feed) + str(ts)

    def copy_orders_prefix(self, feed: str) -> str:
        return self.prefix + f"changefeed/copy-order/{feed}/"

    def copy_order(self, feed: str, number: str) -> str:
        """``CopyOrder``: the operator's word."""
        return self.copy_orders_prefix(feed) + number

    def copy_statuses_prefix(self, feed: str) -> str:
        return self.prefix + f"changefeed/copy-status/{feed}/"

    def copy_status(self, feed: str, number: str) -> str:
        """``CopyStatus``: the owner's word on it."""
        return self.copy_statuses_prefix(feed) + number

    @property
    def upstream_info_prefix(self) -> str:
        return self.prefix + "upstream/info/"

    def upstream_info(self, name: str) -> str:
        """``UpstreamInfo``."""
        return self.upstream_info_prefix + name

    @property
    def upstream_status_prefix(self) -> str:
        return self.prefix + "upstream/status/"

    def upstream_status(self, name: str) -> str:
        """``UpstreamStatus``."""
        return self.upstream_status_prefix + name

    @property
    def upstream_prefix(self) -> str:
        """All that is written of upstreams, by whomever."""
        return self.prefix + "upstream/"

    @property
    def placement_prefix(self) -> str:
        return self.prefix + "upstream/placement/"

    def placement(self, name: str) -> str:
        """``UpstreamPlacement``: which capture is to have an upstream; the owner's word."""
        return self.placement_prefix + name

    @property
    def puller_prefix(self) -> str:
        return self.prefix + "upstream/puller/"

    def puller(self, name: str) -> str:
        """The capture that has an upstream, or a node of it, under its lease: it pulls, and its
        create revision guards all that is written of the changefeeds there."""
        return self.puller_prefix + name

    def assignments_prefix(self, capture_id: str) -> str:
        return self.prefix + f"task/assignment/{capture_id}/"

    def assignment(self, capture_id: str, feed: str) -> str:
        """``Assignment``: owner to processor."""
        return self.assignments_prefix(capture_id) + feed

    @property
    def report_prefix(self) -> str:
        return self.prefix + "task/report/"

    def report(self, capture_id: str, feed: str) -> str:
        """``Report``: processor to owner."""
        return f"{self.report_prefix}{capture_id}/{feed}"

    def acknowledged(self, feed: str) -> str:
        """``Acknowledgements``: what a changefeed's destinations have."""
        return self.prefix + f"task/acknowledged/{feed}"

    def copied_rows(self, feed: str) -> str:
        """``CopiedRows``: what a changefeed has begun with."""
        return self.prefix + f"task/copied-rows/{feed}"

    def slots(self, feed: str) -> str:
        """The transactional ids that a changefeed has ever used."""
        return self.prefix + f"task/slots/{feed}"


def last(key: str) -> str:
    """The last part of a key: the name of what it is about."""
    return key.rpartition("/")[2]
