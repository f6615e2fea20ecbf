"""The proxy does to connections what it says: to the byte, and to both sides."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.servers.proxy import COMMIT, Proxy
from tests.waiting import until


class _Server:
    """Answers each piece with ``answer``; ``got`` is what it was sent, ``ended`` who has gone."""

    def __init__(self) -> None:
        self.got = b""
        self.ended = 0
        self.answer = b"x" * 1000
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                one, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(one,), daemon=True).start()

    def _serve(self, one: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                self.got += data
                one.sendall(self.answer)
        self.ended += 1

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def server() -> Iterator[_Server]:
    made = _Server()
    yield made
    made.close()


@pytest.fixture
def proxy(server: _Server) -> Iterator[Proxy]:
    with Proxy(server.port) as made:
        yield made


def _client(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=10)


def _read(client: socket.socket, count: int) -> bytes:
    """So many bytes, or fewer if the connection ends."""
    found = b""
    with suppress(ConnectionError):
        while len(found) < count and (data := client.recv(count - len(found))):
            found += data
    return found


def _silent(client: socket.socket) -> bool:
    """Nothing comes, no end either."""
    client.settimeout(0.3)
    try:
        client.recv(1)
    except TimeoutError:
        return True
    finally:
        client.settimeout(10)
    return False


def test_all_passes(server: _Server, proxy: Proxy) -> None:
    with _client(proxy) as client:
        client.sendall(b"hello")
        assert _read(client, 1000) == server.answer
        assert server.got == b"hello"
    until(lambda: server.ended == 1, "the server hears of the end")


def test_a_cut_falls_at_the_byte(server: _Server, proxy: Proxy) -> None:
    with _client(proxy) as client:
        proxy.cut_after(123)
        client.sendall(b"hello")
        assert _read(client, 1000) == server.answer[:123]
        assert proxy.cuts == 1
    with _client(proxy) as client:
        client.sendall(b"again")
        assert len(_read(client, 1000)) == 1000, "it cuts once"


def test_what_is_stalled_comes_later(server: _Server, proxy: Proxy) -> None:
    with _client(proxy) as client:
        proxy.stall()
        client.sendall(b"hello")
        assert _silent(client)
        assert server.got == b""
        proxy.go_on()
        assert _read(client, 1000) == server.answer


def test_answers_alone_are_held(server: _Server, proxy: Proxy) -> None:
    with _client(proxy) as client:
        proxy.hold_answers()
        client.sendall(b"hello")
        until(lambda: server.got == b"hello", "the server is sent it")
        assert _silent(client)
        proxy.pass_answers()
        assert _read(client, 1000) == server.answer


def test_a_client_that_goes_while_answers_are_held_vanishes(server: _Server, proxy: Proxy) -> None:
    with _client(proxy) as client:
        proxy.hold_answers()
        client.sendall(b"hello")
        until(lambda: server.got == b"hello", "the server is sent it")
    with pytest.raises(AssertionError):
        until(lambda: server.ended, "the server hears of the end", 0.3)
    proxy.pass_answers()
    until(lambda: server.ended == 1, "the server hears of the end")


def test_lost_connections_are_silent_and_new_ones_are_not(server: _Server, proxy: Proxy) -> None:
    with _client(proxy) as lost, _client(proxy) as other:
        for client in (lost, other):
            client.sendall(b"a")
            assert len(_read(client, 1000)) == 1000
        proxy.lose()
        lost.sendall(b"b")
        assert _silent(lost)
        assert server.got == b"aa"
        with _client(proxy) as new:
            new.sendall(b"c")
            assert len(_read(new, 1000)) == 1000
        other.close()
        with pytest.raises(AssertionError):
            until(lambda: server.ended > 1, "the server hears of a lost client", 0.3)


def test_slow_is_as_slow_as_it_says(server: _Server, proxy: Proxy) -> None:
    with _client(proxy) as client:
        proxy.slow(2000)
        began = time.monotonic()
        client.sendall(b"hello")
        assert len(_read(client, 1000)) == 1000
        assert time.monotonic() - began > 0.3, "a thousand bytes of 2000 a second"


def test_refused_and_switched(server: _Server, proxy: Proxy) -> None:
    other = _Server()
    with _client(proxy) as client:
        client.sendall(b"a")
        assert len(_read(client, 1000)) == 1000
        proxy.refuse()
        assert _read(client, 1) == b""
    with _client(proxy) as client:
        assert _read(client, 1) == b""
    proxy.go_on()
    proxy.switch(other.port)
    with _client(proxy) as client:
        client.sendall(b"b")
        assert len(_read(client, 1000)) == 1000
    assert (server.got, other.got) == (b"a", b"b")
    other.close()


@pytest.mark.parametrize("forward", [True, False])
def test_a_commit_is_cut_and_its_answer_never_comes(
    server: _Server, proxy: Proxy, forward: bool
) -> None:
    with _client(proxy) as client:
        client.sendall(b"a")
        assert len(_read(client, 1000)) == 1000
        proxy.cut_at_commit(forward=forward)
        client.sendall(COMMIT)
        assert _read(client, 1) == b""
        until(lambda: server.ended == 1, "the server's side ends")
        assert server.got == (b"a" + COMMIT if forward else b"a")
        assert proxy.cuts == 1
