"""What only etcd can do to its clients: members that die, hang, fill up, refuse, or answer late."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from etcd3 import etcdrpc
from etcd3.etcdrpc.auth_pb2 import Permission

from cdc.coord.contract import (
    Held,
    KeyEvent,
    LeaseExpired,
    Put,
    Store,
    StoreFailed,
    StoreTxnTooLarge,
    Unchanged,
    WatchCompacted,
)
from cdc.coord.etcd import store as store_module
from cdc.coord.etcd.address import EtcdAddress, StoreAddressInvalid
from cdc.coord.etcd.connection import EtcdConnection
from cdc.coord.etcd.errors import StoreFull, StoreRefused, StoreUncertain
from cdc.coord.etcd.store import EtcdStore
from tests import servers
from tests.servers.etcd import Etcd
from tests.servers.proxy import Proxy
from tests.waiting import until

pytestmark = pytest.mark.real


@contextmanager
def opened(address: str, timeout_s: float = 15.0) -> Iterator[Store]:
    store = EtcdStore(EtcdAddress.parse(address), timeout_s)
    try:
        yield store
    finally:
        store.close()


class Counting:
    """Adds one to a key over and over, and follows it by a watch."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.store.txn([], [Put("/n", b"0")])
        self.watch = store.watch("/n", store.revision() + 1)
        self.added = 0
        self.uncertain = 0
        self.seen: list[int] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=t) for t in (self._add, self._look)]
        for thread in self._threads:
            thread.start()

    def _add(self) -> None:
        while not self._stop.is_set():
            try:
                entry = self.store.get("/n")
                assert entry is not None
                put = Put("/n", str(int(entry.value) + 1).encode())
                if self.store.txn([Unchanged("/n", entry.mod_revision)], [put]):
                    self.added += 1
            except StoreUncertain:
                self.uncertain += 1
            except StoreFailed:
                pass

    def _look(self) -> None:
        while events := self.watch.next():
            self.seen += [int(e.value or b"") for e in events]

    def goes_on(self) -> None:
        """Wait until it is somewhat further."""
        before = self.added
        until(lambda: self.added > before + 20, "writes go on", 30)

    def end(self) -> None:
        """Each addition was made once and was seen once."""
        self._stop.set()
        self._threads[0].join()
        entry = self.store.get("/n")
        assert entry is not None
        total = int(entry.value)
        assert self.added <= total <= self.added + self.uncertain
        until(lambda: self.seen and self.seen[-1] == total, "the watch has come to the end", 60)
        assert self.seen == list(range(1, total + 1))
        self.watch.close()
        self._threads[1].join()


def test_a_member_is_killed_and_comes_back() -> None:
    with servers.etcd() as etcd, opened(etcd.address) as store:
        counting = Counting(store)
        for _ in range(3):
            counting.goes_on()
            etcd.members[0].kill()
            etcd.restart(etcd.members[0])
        counting.goes_on()
        counting.end()


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_three_members_lose_their_leader(fault: signal.Signals) -> None:
    with servers.etcd(count=3) as etcd, opened(etcd.address) as store:
        counting = Counting(store)
        counting.goes_on()
        leader = etcd.leader()
        leader.signal(fault)
        counting.goes_on()
        if fault is signal.SIGSTOP:
            leader.signal(signal.SIGCONT)
        counting.end()


@pytest.mark.parametrize("asks", [True, False], ids=["who-asks-too", "who-only-watches"])
def test_a_watch_does_not_stay_at_a_member_that_hangs(asks: bool) -> None:
    """Its connection is there all the time, and nothing comes over it."""
    with ExitStack() as stack:
        etcd = stack.enter_context(servers.etcd(count=3))
        others = "etcd://" + ",".join(m.address for m in etcd.members[1:])
        store, other = (stack.enter_context(opened(a)) for a in (etcd.address, others))
        watch = store.watch("/k", store.revision() + 1)
        other.txn([], [Put("/k", b"1")])
        assert [e.value for e in watch.next(10)] == [b"1"]
        etcd.members[0].signal(signal.SIGSTOP)
        until(lambda: _written(other, b"2"), "another member leads")
        events: list[KeyEvent] = []

        def heard() -> bool:
            if asks:
                store.get("/k")
            events.extend(watch.next(0.1))
            return bool(events)

        # Times three where machines are slow, which is not the minute that it was.
        until(heard, "the watch goes on", 5 if asks else 18)
        assert [e.value for e in events] == [b"2"]
        etcd.members[0].signal(signal.SIGCONT)
        watch.close()


def _written(store: Store, value: bytes) -> bool:
    try:
        return store.txn([], [Put("/k", value)])
    except StoreFailed:
        return False


def test_without_a_majority_calls_end_and_come_back() -> None:
    with servers.etcd(count=3) as etcd, opened(etcd.address, 4.0) as store:
        assert store.txn([], [Put("/k", b"1")])
        watch = store.watch("/k", store.revision() + 1)
        for member in etcd.members[:2]:
            member.signal(signal.SIGSTOP)
        begun = time.monotonic()
        for call in (lambda: store.get("/k"), lambda: store.txn([], [Put("/k", b"2")])):
            with pytest.raises(StoreFailed):
                call()
        assert time.monotonic() - begun < 20
        for member in etcd.members[:2]:
            member.signal(signal.SIGCONT)

        def write() -> bool:
            try:
                return store.txn([], [Put("/k", b"3")])
            except StoreFailed:
                return False

        until(write, "writes go on", 30)
        events: list[KeyEvent] = []
        until(lambda: events.extend(watch.next(1)) or (events and events[-1].value == b"3"), "3")
        watch.close()


def _with_a_proxy(stack: ExitStack) -> tuple[Store, Proxy]:
    """A store whose first member is behind a proxy, and the second is the same one directly."""
    etcd = stack.enter_context(servers.etcd())
    proxy = stack.enter_context(Proxy(etcd.members[0].port))
    address = f"etcd://127.0.0.1:{proxy.port},{etcd.members[0].address}"
    store = stack.enter_context(opened(address))
    assert store.txn([], [Put("/n", b"0")])
    return store, proxy


def _answer_lost(store: Store, proxy: Proxy) -> bool:
    entry = store.get("/n")
    assert entry is not None
    proxy.hold_answers()
    return store.txn([Unchanged("/n", entry.mod_revision)], [Put("/n", b"1")])


def test_a_lost_answer_is_not_taken_for_a_refusal() -> None:
    with ExitStack() as stack:
        store, proxy = _with_a_proxy(stack)
        assert _answer_lost(store, proxy)
        entry = store.get("/n")
        assert entry is not None
        assert entry.value == b"1"


def test_without_marks_it_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: the same, of transactions that leave no mark."""

    def plain(compares, ops, *_) -> etcdrpc.TxnRequest:
        look = etcdrpc.RequestOp(request_range=etcdrpc.RangeRequest(key=b"/n"))
        return etcdrpc.TxnRequest(compare=compares, success=ops, failure=[look])

    monkeypatch.setattr(store_module, "attempt", plain)
    with ExitStack() as stack:
        store, proxy = _with_a_proxy(stack)
        assert not _answer_lost(store, proxy)


def test_an_attempt_that_arrives_late_does_nothing() -> None:
    with ExitStack() as stack:
        store, proxy = _with_a_proxy(stack)
        proxy.stall()
        assert store.txn([], [Put("/n", b"first")])
        assert store.txn([], [Put("/n", b"second")])
        proxy.go_on()
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            entry = store.get("/n")
            assert entry is not None
            assert entry.value == b"second"
            time.sleep(0.05)


_HOLDER = """
import sys, time
from cdc.coord.contract import Held, LeaseExpired, Put
from cdc.coord.etcd.address import EtcdAddress
from cdc.coord.etcd.store import EtcdStore
store = EtcdStore(EtcdAddress.parse(sys.argv[1]))
lease = store.grant(2)
store.txn([], [Put("/owner", b"me", lease)])
token = store.get("/owner").create_revision
print("held", flush=True)
try:
    while True:
        store.keepalive(lease)
        time.sleep(0.3)
except LeaseExpired:
    print("lost", store.txn([Held("/owner", token)], [Put("/done", b"by me")]), flush=True)
"""


def test_who_was_stopped_beyond_its_lease_can_do_no_harm() -> None:
    with servers.etcd() as etcd, opened(etcd.address) as store:
        holder = subprocess.Popen(
            [sys.executable, "-c", _HOLDER, etcd.address], stdout=subprocess.PIPE, text=True
        )
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            first = store.get("/owner")
            holder.send_signal(signal.SIGSTOP)
            until(lambda: store.get("/owner") is None, "the lease has ended", 30)
            assert store.txn([Unchanged("/owner", 0)], [Put("/owner", b"other")])
            holder.send_signal(signal.SIGCONT)
            assert holder.stdout.readline() == "lost False\n"
            assert store.get("/done") is None
            assert first is not None
            assert not store.txn([Held("/owner", first.create_revision)], [])
        finally:
            holder.kill()
            holder.wait()


def _maintain(etcd: Etcd, call: Callable[[object], None]) -> None:
    with etcd.members[0].channel() as channel:
        call(channel)


def test_events_that_were_compacted_are_refused() -> None:
    with servers.etcd() as etcd, opened(etcd.address) as store:
        open_watch = store.watch("/k", 1)
        for n in range(10):
            store.txn([], [Put("/k", str(n).encode())])
        revision = store.revision()
        seen: list[KeyEvent] = []
        until(lambda: seen.extend(open_watch.next(1)) or len(seen) == 10, "ten events")
        request = etcdrpc.CompactionRequest(revision=revision)
        _maintain(etcd, lambda c: etcdrpc.KVStub(c).Compact(request, timeout=5))
        with pytest.raises(WatchCompacted):
            store.watch("/k", 2).next(10)
        store.txn([], [Put("/k", b"more")])
        assert [e.value for e in open_watch.next(10)] == [b"more"]
        assert [e.value for e in store.watch("/k", revision + 1).next(10)] == [b"more"]


def _fill(store: Store) -> None:
    for n in range(200):
        store.txn([], [Put(f"/big/{n % 10}", b"x" * 100_000)])


def test_a_full_store_says_so_and_recovers() -> None:
    with (
        servers.etcd(options=["--quota-backend-bytes", str(1 << 21)]) as etcd,
        opened(etcd.address) as store,
    ):
        with pytest.raises(StoreFull) as full:
            _fill(store)
        assert "alarm disarm" in full.value.hint
        assert store.get("/big/0") is not None
        last = store.revision()

        def mend(channel) -> None:
            compact = etcdrpc.CompactionRequest(revision=last, physical=True)
            etcdrpc.KVStub(channel).Compact(compact, timeout=5)
            kept = etcdrpc.MaintenanceStub(channel)
            kept.Defragment(etcdrpc.DefragmentRequest(), timeout=20)
            member = kept.Status(etcdrpc.StatusRequest(), timeout=5).header.member_id
            off = etcdrpc.AlarmRequest(
                action=etcdrpc.AlarmRequest.DEACTIVATE, memberID=member, alarm=etcdrpc.NOSPACE
            )
            kept.Alarm(off, timeout=5)

        _maintain(etcd, mend)
        assert store.txn([], [Put("/small", b"")])


def test_what_is_too_large_is_refused() -> None:
    with servers.etcd() as etcd, opened(etcd.address) as store, pytest.raises(StoreTxnTooLarge):
        store.txn([], [Put("/k", b"x" * 4_000_000)])


def _enable_auth(channel) -> None:
    auth = etcdrpc.AuthStub(channel)
    auth.UserAdd(etcdrpc.AuthUserAddRequest(name="root", password="r00t"), timeout=5)
    auth.UserGrantRole(etcdrpc.AuthUserGrantRoleRequest(user="root", role="root"), timeout=5)
    auth.RoleAdd(etcdrpc.AuthRoleAddRequest(name="cdc"), timeout=5)
    everything = Permission(permType=2, key=b"/cdc/", range_end=b"/cdc0")
    grant = etcdrpc.AuthRoleGrantPermissionRequest(name="cdc", perm=everything)
    auth.RoleGrantPermission(grant, timeout=5)
    auth.UserAdd(etcdrpc.AuthUserAddRequest(name="cdc", password="s3cr3t/:@"), timeout=5)
    auth.UserGrantRole(etcdrpc.AuthUserGrantRoleRequest(user="cdc", role="cdc"), timeout=5)
    auth.AuthEnable(etcdrpc.AuthEnableRequest(), timeout=5)


def test_users_with_a_prefix_of_their_own(tmp_path: Path) -> None:
    with servers.etcd() as etcd:
        hosts = etcd.members[0].address
        with (
            opened(f"etcd://cdc:x@{hosts}/cdc") as early,
            pytest.raises(StoreRefused, match="not enabled"),
        ):
            early.get("/a")
        _maintain(etcd, _enable_auth)
        secret = tmp_path / "password"
        secret.write_text("s3cr3t/:@\n")
        with opened(f"etcd://cdc:s3cr3t%2F%3A%40@{hosts}/cdc") as store:
            lease = store.grant(10)
            assert store.txn([], [Put("/a", b"1", lease)])
            watch = store.watch("/a", store.revision() + 1)
            # Tokens are in the member's memory: all are gone with it.
            etcd.members[0].kill()
            etcd.restart(etcd.members[0])
            assert store.txn([], [Put("/a", b"2", lease)])
            assert [e.value for e in watch.next(30)] == [b"2"]
            store.keepalive(lease)
            assert [e.value for e in store.range("/")[1] if e.key == "/a"] == [b"2"]
        with opened(f"etcd://cdc@{hosts}/cdc?password-file={secret}") as store:
            assert store.get("/a") is not None
        with opened(f"{etcd.address}/cdc") as nobody, pytest.raises(StoreRefused):
            nobody.watch("/a", 1).next(30)
        for login, prefix in (("cdc:wrong@", "/cdc"), ("", "/cdc"), ("cdc:s3cr3t%2F%3A%40@", "/x")):
            with (
                opened(f"etcd://{login}{hosts}{prefix}") as refused,
                pytest.raises(StoreRefused) as error,
            ):
                refused.txn([], [Put("/a", b"")])
            assert "s3cr3t" not in str(error.value)
            assert "wrong" not in str(error.value)


def test_a_login_that_is_always_refused_does_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    with servers.etcd() as etcd:
        _maintain(etcd, _enable_auth)
        with opened(f"etcd://cdc:s3cr3t%2F%3A%40@{etcd.members[0].address}/cdc", 2.0) as store:
            wrong = [("hasleader", "true"), ("token", "of.yesterday")]
            monkeypatch.setattr(EtcdConnection, "_metadata", lambda *_: wrong)
            before = time.process_time()
            with pytest.raises(StoreFailed, match="invalid auth token"):
                store.get("/a")
            assert time.process_time() - before < 1


def test_deadlines_of_threads_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor with the lease of the marks, which is then due."""
    monkeypatch.setattr(store_module, "_MARKS_AGAIN_S", 0.0)
    with servers.etcd() as etcd, opened(etcd.address, 3.0) as store:
        assert store.txn([], [Put("/k", b"")])
        etcd.members[0].signal(signal.SIGSTOP)
        took_s: list[float] = []

        def write() -> None:
            begun = time.monotonic()
            with suppress(StoreFailed):
                store.txn([], [Put("/k", b"")])
            took_s.append(time.monotonic() - begun)

        threads = [threading.Thread(target=write) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert max(took_s) < 6
        begun = time.monotonic()
        with pytest.raises(StoreFailed):
            store.keepalive(1, 0.5)
        assert time.monotonic() - begun < 2
        etcd.members[0].signal(signal.SIGCONT)


def test_tls() -> None:
    with servers.etcd(with_tls=True) as etcd:
        assert etcd.tls is not None
        address = f"{etcd.address}/t?ca={etcd.tls.ca}"
        with opened(f"{address}&cert={etcd.tls.cert}&key={etcd.tls.key}") as store:
            assert store.txn([], [Put("/a", b"1")])
        # Without TLS, without the authority, without a certificate.
        for other in (f"{etcd.address}/t", f"{etcd.address}/t?tls=true", address):
            with opened(other, 2.0) as store, pytest.raises(StoreFailed):
                store.get("/a")


def test_leases_end_by_themselves() -> None:
    with servers.etcd("etcd-3.4") as etcd, opened(etcd.address) as store:
        lease = store.grant(2)
        begun = time.monotonic()
        store.txn([], [Put("/session", b"", lease)])
        until(lambda: store.get("/session") is None, "the lease has ended", 30)
        assert time.monotonic() - begun > 2
        with pytest.raises(LeaseExpired):
            store.keepalive(lease)


@pytest.mark.parametrize(
    "text",
    [
        "etcd://",
        "etcd://host",
        "etcd://host:99999",
        "etcd://h:1,",
        "etcd://u:S3cret@host",
        "etcd://S3cret@h:1",
        "etcd://h:1/a b",
        "etcd://h:1?sslmode=S3cret&x",
        "etcd://h:1?pasword=S3cret",
        "etcd://h:1?tls=S3cret",
        "etcd://h:1?cert=/dev/null",
        "etcd://h:1?ca=/not/there",
        "etcd://h:1?tls=false&ca=/dev/null",
        "etcd://u:S3cret#more@h:1",
    ],
)
def test_addresses_that_are_wrong(text: str) -> None:
    with pytest.raises(StoreAddressInvalid) as error:
        EtcdAddress.parse(text)
    assert "S3cret" not in str(error.value)
    assert "S3cret" not in repr(error.value)


def test_addresses() -> None:
    address = EtcdAddress.parse("etcd://me:p%40ss@a:1,[::1]:2/x/y/")
    assert address.members == ("a:1", "[::1]:2")
    assert (address.prefix, address.user, address.password) == ("/x/y", "me", "p@ss")
    assert "p@ss" not in repr(address)
    assert not address.tls
