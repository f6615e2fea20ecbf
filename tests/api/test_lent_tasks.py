"""Tasks between captures: whole, for whom they are, once, and to be read by nobody else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import uvicorn
from starlette.responses import Response

import cdc
from cdc.api import errors
from cdc.api.lent_tasks import LentTasksMiddleware
from cdc.base.clock import SystemClock
from cdc.base.errors import DefiniteError
from cdc.coord.contract import Delete, Put, Store
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from cdc.coord.messages import CaptureInfo
from cdc.coord.opening import open_store
from cdc.coord.stored import readable
from cdc.server.api_tokens import OWN
from cdc.server.lenders import PATH, Lenders, TaskTaker
from cdc.server.peers import Peers
from cdc.server.sealed import Seal, SealBroken
from cdc.server.settings import SecuritySettings
from processor.lending import LenderLost
from processor.task_messages import Ack, Descriptor
from tests import servers
from tests.api.server_process import without_spark
from tests.processor.test_lending import descriptors
from tests.servers.etcd import Etcd
from tests.servers.process import free_port
from tests.servers.proxy import HeardProxy
from tests.waiting import until

KEYS = Keys()
PLANTED = "pl4nted-passw0rd"


@pytest.fixture(scope="module")
def etcd() -> Iterator[Etcd]:
    with servers.etcd() as made:
        yield made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    made = EmbeddedStore(tmp_path / "meta.db", SystemClock())
    yield made
    made.close()


def _peers(store: Store, capture: str) -> Peers:
    return Peers(store, KEYS, capture, SecuritySettings(), SystemClock())


def _lenders(store: EmbeddedStore, capture: str) -> Lenders:
    return Lenders(store, KEYS, _peers(store, capture), SystemClock())


class Lending:
    """Capture ``b``, which runs tasks of others as ``does`` says."""

    def __init__(self, store: EmbeddedStore) -> None:
        self.store = store
        self.port = free_port()
        self.does: Callable[[], None] = lambda: None
        self.asked: list[Descriptor] = []

        async def rest(scope: object, receive: object, send: object) -> None:
            await Response("the API")(scope, receive, send)  # type: ignore[arg-type]

        taker = TaskTaker(_lenders(store, "b"), _peers(store, "b"), self._lend)
        app = LentTasksMiddleware(rest, taker, errors.answer)  # type: ignore[arg-type]
        config = uvicorn.Config(app, port=self.port, log_config=None, lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        until(lambda: self._server.started, "it answers")
        self.known(self.port)

    def known(self, port: int, **changed: object) -> None:
        """Register it at a port."""
        info = CaptureInfo(
            id="b", address=f"127.0.0.1:{port}", version=cdc.__version__, ready=True, lends=2
        ).model_copy(update=changed)
        self.store.txn([], [Put(KEYS.capture("b"), info.model_dump_json().encode())])

    def _lend(self, descriptors: Sequence[Descriptor], what: str, timeout_s: float) -> list[Ack]:
        self.asked += descriptors
        self.does()
        return [Ack(d.destinations, rows=d.destinations[0][1]) for d in descriptors]

    def stop(self) -> None:
        """End it."""
        self._server.should_exit = True
        self._thread.join()


@pytest.fixture
def lending(store: EmbeddedStore) -> Iterator[Lending]:
    made = Lending(store)
    yield made
    made.stop()


def test_tasks_go_there_and_answers_come_back_unread(
    store: EmbeddedStore, lending: Lending
) -> None:
    asked = [
        replace(d, plan=replace(d.plan, sink_uri=f"mysql://u:{PLANTED}@h/")) for d in descriptors(3)
    ]
    with HeardProxy(lending.port, answers=True) as network:
        lending.known(network.port)
        (lender,) = _lenders(store, "a").now()
        assert (lender.capture, lender.tasks) == ("b", 2)
        assert [ack.rows for ack in lender.run(asked, "window", 60.0)] == [0, 1, 2]
    assert lending.asked == asked
    assert PATH.encode() in network.heard
    assert PLANTED.encode() not in network.heard
    assert b"Descriptor" not in network.heard


def test_what_goes_wrong_there_is_said_here(store: EmbeddedStore, lending: Lending) -> None:
    (lender,) = _lenders(store, "a").now()

    def refuses() -> None:
        raise DefiniteError("a worker has no memory", object="worker")

    def dies() -> None:
        raise OSError("a worker has died")

    for does, why in ((refuses, "no memory"), (dies, "has died")):
        lending.does = does
        with pytest.raises(LenderLost, match=why):
            lender.run(descriptors(1), "window", 60.0)


def test_one_whose_session_ends_is_not_waited_for(store: EmbeddedStore, lending: Lending) -> None:
    (lender,) = _lenders(store, "a").now()
    woken = threading.Event()

    def freezes() -> None:
        store.txn([], [Delete(KEYS.capture("b"))])
        woken.wait(60)

    lending.does = freezes
    try:
        with pytest.raises(LenderLost, match="session has ended"):
            lender.run(descriptors(1), "window", 600.0)
    finally:
        woken.set()
    with pytest.raises(LenderLost, match="has gone"):
        lender.run(descriptors(1), "window", 600.0)


def test_one_that_cannot_be_reached_is_said_to_be(store: EmbeddedStore, lending: Lending) -> None:
    lending.known(free_port())
    (lender,) = _lenders(store, "a").now()
    with pytest.raises(LenderLost, match="ConnectError"):
        lender.run(descriptors(1), "window", 60.0)


@pytest.mark.parametrize(
    "changed", [{"ready": False}, {"version": "0.0"}, {"lends": 0}, {"id": "a"}, "drained"]
)
def test_who_lends_is_of_our_version_ready_and_not_to_be_left(
    store: EmbeddedStore, lending: Lending, changed: dict[str, object] | str
) -> None:
    if isinstance(changed, str):
        store.txn([], [Put(KEYS.drained("b"), b"")])
    else:
        lending.known(lending.port, **changed)
    assert _lenders(store, "a").now() == []


def test_strangers_are_not_heard(store: EmbeddedStore, lending: Lending) -> None:
    url = f"http://127.0.0.1:{lending.port}{PATH}"
    sealed = _lenders(store, "a").seal().seal("anything", "b")
    token = {"authorization": f"Bearer {_peers(store, 'a').token(OWN)}"}

    def answer(content: bytes, headers: dict[str, str]) -> httpx.Response:
        return httpx.post(url, content=content, headers=headers, trust_env=False)

    for wrong in ({}, {"authorization": "Bearer tgf.x.y"}, {"authorization": "Bearer"}):
        assert answer(sealed, wrong).status_code == 401
    # Who has overheard a token has no seal.
    for content in (b"", b"x" * 100, sealed[:-1], sealed[:-1] + b"\x00"):
        assert answer(content, token).json()["error_code"] == "TG:ErrSealBroken"
    assert httpx.get(url, trust_env=False).text == "the API"
    assert not lending.asked


@pytest.mark.real
@pytest.mark.parametrize(
    ("settings", "lends"),
    [
        ("", True),
        # It asks for none, as nobody could read its log, and is asked all the same.
        ('[log-server]\nserve = "never"\n', True),
        ("[processor]\nlend-workers = false\n", False),
    ],
)
def test_who_says_that_it_lends_takes_tasks(
    etcd: Etcd, tmp_path: Path, settings: str, lends: bool
) -> None:
    address = f"{etcd.address}/{tmp_path.name}"
    config = tmp_path / "server.toml"
    config.write_text(f'store = "{address}"\n{settings}')
    with without_spark(tmp_path, "--config", str(config)) as server:
        seen = open_store(address, tmp_path / "none", SystemClock())
        try:

            def known() -> CaptureInfo | None:
                _, entries = seen.range(KEYS.capture_prefix)
                return next((i for _, i in readable(entries, CaptureInfo) if i.ready), None)

            info = until(known, "it is ready")
            assert info is not None
            assert (info.lends > 0) == lends
            seal = Lenders(seen, KEYS, _peers(seen, "a"), SystemClock()).seal()
            token = {"authorization": f"Bearer {_peers(seen, 'a').token(OWN)}"}
            sent = seal.seal("anything", "another")
            found = httpx.post(f"{server.url}{PATH}", content=sent, headers=token, trust_env=False)
            refused = found.json()["error_code"]
            assert (refused == "TG:ErrSealBroken") == lends, refused
        finally:
            seen.close()


class SetClock(SystemClock):
    """A clock that may be of another host."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


def test_a_seal_is_for_one_capture_once_and_for_a_while() -> None:
    clock = SetClock()
    ours, theirs = Seal(b"secret", clock), Seal(b"secret", clock)
    message = ours.seal({"a": PLANTED}, "b")
    assert PLANTED.encode() not in message
    with pytest.raises(SealBroken):
        theirs.open(message, "c")
    with pytest.raises(SealBroken):
        Seal(b"another", clock).open(message, "b")
    assert theirs.open(message, "b") == {"a": PLANTED}
    with pytest.raises(SealBroken, match="before"):
        theirs.open(message, "b")
    late = ours.seal(1, "b")
    clock.ahead_ms = 121_000
    with pytest.raises(SealBroken, match="clocks"):
        theirs.open(late, "b")
    with pytest.raises(SealBroken, match="clocks"):
        theirs.open(message, "b")
