"""``ETag`` and ``If-Match``: a change of what somebody has looked at is one of just that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import httpx
import pytest
from starlette.testclient import TestClient

from cdc.api.app import make
from cdc.api.guard import Guard
from cdc.base.clock import SystemClock
from cdc.coord.contract import Op, Put
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.expected import ChangedSince
from cdc.server.api_tokens import ApiTokens
from cdc.server.audit import AuditLog
from owner import admin
from tests.api.server_process import CdcServer
from tests.owner.operating import Installation, schema_of

OWN = "t" * 43
HEAD = {"Authorization": f"Bearer {OWN}"}


class Overtaken(EmbeddedStore):
    """A store in which somebody else writes the key just before the next change of it."""

    key = ""

    def txn(self, compares: Any, ops: Any, *, durable: bool = True) -> bool:
        """As of any store."""
        key, self.key = self.key, ""
        if key and any(op.key == key for op in ops):
            entry = self.get(key)
            assert entry is not None
            super().txn([], [Put(key, entry.value)])
        elif key:
            self.key = key
        return super().txn(compares, ops, durable=durable)


class Stage:
    """The real application over real operations and a real store."""

    def __init__(self, folder: Path) -> None:
        self.store = Overtaken(folder / "meta.db", SystemClock())
        self.here = Installation(self.store)
        self.here.schema = schema_of({"keyed": "id INT PRIMARY KEY"})
        self.sink = f"file://{folder}/sink?protocol=canal-json"
        keys = self.here.keys
        capture = MagicMock(store=self.store, keys=keys, clock=SystemClock(), id="c1")
        capture.audit = AuditLog(self.store, keys, SystemClock(), "c1")
        capture.tokens = ApiTokens(self.store, keys, SystemClock())
        capture.operations = self.here.operations
        app = make(capture, Guard.of(OWN, ["127.0.0.1"]))
        self.http = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)

    def send(
        self, method: str, path: str, body: Any = None, tag: str | None = None
    ) -> httpx.Response:
        head = HEAD if tag is None else HEAD | {"If-Match": tag}
        return self.http.request(method, f"/api/v2/changefeeds{path}", json=body, headers=head)

    def tag(self) -> str:
        return self.send("GET", "/f").headers["ETag"]

    def entries(self) -> dict[str, Op]:
        return {e.key: e for e in self.store.range("")[1] if "/audit" not in e.key}  # type: ignore[misc]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.store.close()


def test_a_tag_is_good_until_it_is_changed(stage: Stage) -> None:
    body = {"changefeed_id": "f", "upstream": "main", "sink_uri": stage.sink}
    created = stage.send("POST", "", body)
    assert created.status_code == 200, created.text
    first = stage.tag()
    assert created.headers["ETag"] == first
    # Progress is not what it stands for.
    status = stage.here.keys.feed_status("f")
    stage.store.txn([], [Put(status, b'{"checkpoint_ts": 7}')])
    assert stage.tag() == first
    assert stage.send("POST", "/f/pause", tag=first).status_code == 200
    second = stage.tag()
    assert second != first
    changed = stage.send("PUT", "/f", {"target_ts": 1 << 60}, tag=second)
    assert changed.status_code == 200, changed.text
    assert changed.headers["ETag"] == stage.tag() != second
    assert stage.send("POST", "/f/resume", tag=f'{first}, {stage.tag()}, "x"').status_code == 200
    assert stage.send("DELETE", "/f", tag=stage.tag()).status_code == 200


CHANGES = [
    ("PUT", "/f", {"target_ts": 1 << 60}),
    ("POST", "/f/pause", None),
    ("POST", "/f/resume", None),
    ("POST", "/f/resume", {"overwrite_checkpoint_ts": 2000}),
    ("POST", "/f/resume", {"rewind": True}),
    ("POST", "/f/resume", {"copy_again": True}),
    ("DELETE", "/f", None),
]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
def test_of_what_has_changed_nothing_is(stage: Stage, method: str, path: str, body: Any) -> None:
    stage.here.create("f", stage.sink)
    old = stage.tag()
    admin.pause(stage.store, stage.here.keys, "f")
    before = stage.entries()
    for tag in (old, f"W/{stage.tag()}", '"0"', '"x"', '"' + "9" * 30 + '"'):
        refused = stage.send(method, path, body, tag)
        assert refused.status_code == 412, (tag, refused.text)
        assert refused.json()["error_code"] == "TG:ErrChangedSince"
    for malformed in ("nothing", "", '"a', "7", '*, "7"'):
        refused = stage.send(method, path, body, malformed)
        assert refused.status_code == 400, (malformed, refused.text)
        assert refused.json()["error_code"] == "TG:ErrAPIInvalidParam"
    assert stage.entries() == before
    # Whatever it is.
    assert stage.send(method, path, body, "*").status_code in (200, 400)


@pytest.mark.parametrize(("method", "path", "body"), CHANGES[:3] + CHANGES[6:])
def test_nothing_comes_between_the_look_and_the_change(
    stage: Stage, method: str, path: str, body: Any
) -> None:
    stage.here.create("f", stage.sink)
    if path != "/f/pause":
        admin.pause(stage.store, stage.here.keys, "f")
    key = stage.store.key = stage.here.keys.feed_info("f")
    refused = stage.send(method, path, body, stage.tag())
    assert refused.status_code == 412, refused.text
    assert stage.store.get(key) is not None
    # Who has not asked for it is not held up by it.
    stage.store.key = key
    assert stage.send(method, path, body).status_code == 200


def test_a_changefeed_that_is_gone(stage: Stage) -> None:
    assert stage.send("DELETE", "/f").status_code == 200
    assert stage.send("DELETE", "/f", tag='"1"').status_code == 412
    assert stage.send("PUT", "/f", {"target_ts": 5}, tag='"1"').status_code == 404
    with pytest.raises(ChangedSince):
        stage.here.operations.remove("f", frozenset({1}))


def test_changes_say_in_the_description_that_they_take_it(server: CdcServer) -> None:
    paths = server.send("GET", "/api/v2/openapi.json").json()["paths"]
    taking = {
        f"{method} {path.removeprefix('/api/v2')}"
        for path, methods in paths.items()
        for method, operation in methods.items()
        if "412" in operation["responses"]
    }
    assert taking == {
        "put /changefeeds/{feed}",
        "delete /changefeeds/{feed}",
        "post /changefeeds/{feed}/move_table",
        "post /changefeeds/{feed}/pause",
        "post /changefeeds/{feed}/resume",
        "put /upstreams/{name}",
        "delete /upstreams/{name}",
        "post /upstreams/{name}/nodes",
        "delete /upstreams/{name}/nodes/{node}",
    }
    for path in ("/api/v2/changefeeds/{feed}", "/api/v2/upstreams/{name}"):
        assert "ETag" in paths[path]["get"]["responses"]["200"]["headers"]
