"""A TCP proxy before any server, by which a test has a network that fails as networks do.

It serves one port on 127.0.0.1 in a thread of its own. What it is told is of all connections, those
that are open and those to come, but for ``lose`` and ``cut``, which new ones survive.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable

COMMIT = b"\x07\x00\x00\x00\x03COMMIT"
"""The packet of a MySQL client that commits."""

_PIECE = 1 << 16
_LOOK_S = 0.005
# A slow line passes its bytes in so many pieces a second.
_TICKS = 20

_Writer = asyncio.StreamWriter


class _Line:
    """One client's connection and ours to the server."""

    def __init__(self, client: _Writer, server: _Writer) -> None:
        self.client, self.server = client, server
        self.lost = False
        self.answers = 0

    def cut(self) -> None:
        """End both sides at once."""
        for side in (self.client, self.server):
            side.transport.abort()

    def end(self) -> None:
        """End both sides behind what was written to them."""
        for side in (self.client, self.server):
            side.close()


class Proxy:
    """Listens on ``port`` and passes everything on to the local port ``target``.

    Methods may be called from any thread; they hold from their return on for what is read then.
    """

    def __init__(self, target: int = 0) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = int(self._listener.getsockname()[1])
        self.cuts = 0
        self.stalled = False
        self._held = self._stopped = self._refuse = False
        self._at_commit: tuple[bool, bool] | None = None
        self._stop_left: int | None = None
        self._cut_left: int | None = None
        self._rate = 0
        self._flip, self._flips = b"", 0
        self._lines: set[_Line] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all connections, and listen no more."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5.0)

    # --- what it is told ------------------------------------------------------------------------

    def switch(self, target: int) -> None:
        """Cut all connections; new ones lead to another server."""
        self._target = target
        self._now(self._cut_all)

    def cut(self) -> None:
        """Cut all connections, now."""
        self._now(self._cut_all)

    def cut_after(self, count: int) -> None:
        """Cut all connections when servers have sent ``count`` more bytes: within a packet."""
        self._cut_left = count

    def cut_at_commit(self, *, forward: bool, refuse_after: bool = False) -> None:
        """Cut at the next COMMIT, which the server sees if ``forward``, but never its answer."""
        self._at_commit = (forward, refuse_after)

    def refuse(self) -> None:
        """Cut all connections, and every new one."""
        self._refuse = True
        self._now(self._cut_all)

    def hold_answers(self) -> None:
        """Pass no answer on; nobody learns that a client has gone."""
        self._held = True

    def stall(self) -> None:
        """Pass nothing on, either way."""
        self._stopped = True

    def stop_after(self, count: int) -> None:
        """Pass ``count`` more bytes of servers on, then nothing; ``stalled`` tells when."""
        self.stalled, self._stop_left = False, count

    def slow(self, bytes_per_s: int) -> None:
        """Pass no more than this on, each connection and way."""
        self._rate = bytes_per_s

    def flip(self, marker: bytes, times: int) -> None:
        """Flip a bit of the next ``times`` pieces of servers' bytes that hold ``marker``."""
        self._flip, self._flips = marker, times

    def lose(self) -> None:
        """Forget all open connections without a word to either side, as a router that restarts."""
        self._now(self._lose_all)

    def go_on(self) -> None:
        """Pass everything on again, what was held first."""
        self._held = self._stopped = self._refuse = False
        self._stop_left = self._cut_left = None
        self._rate = self._flips = 0

    pass_answers = go_on

    # --- how it is done -------------------------------------------------------------------------

    def _now(self, action: Callable[[], None]) -> None:
        done = threading.Event()

        def act() -> None:
            action()
            done.set()

        self._loop.call_soon_threadsafe(act)
        done.wait(5.0)

    def _cut_all(self) -> None:
        for line in list(self._lines):
            line.cut()

    def _lose_all(self) -> None:
        for line in self._lines:
            line.lost = True

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, sock=self._listener)
        )
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._cut_all()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, up: asyncio.StreamReader, client: _Writer) -> None:
        if self._refuse:
            client.transport.abort()
            return
        try:
            down, server = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            client.transport.abort()
            return
        line = _Line(client, server)
        self._lines.add(line)
        pumps = (
            asyncio.ensure_future(self._pump(line, up, server, answers=False)),
            asyncio.ensure_future(self._pump(line, down, client, answers=True)),
        )
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            # A client that goes while answers are held, or is lost, is a host that vanishes.
            while self._held or self._stopped or line.lost:
                await asyncio.sleep(_LOOK_S)
        finally:
            for pump in pumps:
                pump.cancel()
            self._lines.discard(line)
            line.end()

    async def _pump(
        self, line: _Line, source: asyncio.StreamReader, sink: _Writer, *, answers: bool
    ) -> None:
        with contextlib.suppress(ConnectionError, OSError):
            while data := await source.read(_PIECE):
                if not answers and self._at_commit and data == COMMIT:
                    await self._cut_commit(line, data)
                    return
                await self._pass(line, data, sink, answers=answers)

    async def _pass(self, line: _Line, data: bytes, sink: _Writer, *, answers: bool) -> None:
        while self._stopped or (answers and self._held) or (answers and self._stop_left == 0):
            self.stalled = True
            await asyncio.sleep(_LOOK_S)
        if answers and self._stop_left is not None:
            self._stop_left = max(0, self._stop_left - len(data))
        if answers and self._flips and self._flip in data:
            self._flips -= 1
            data = data.replace(self._flip, bytes([self._flip[0] ^ 1]) + self._flip[1:])
        line.answers += answers
        if line.lost:
            return
        if answers and self._cut_left is not None:
            left = self._cut_left
            if len(data) > left:
                self._cut_left = None
                sink.write(data[:left])
                await sink.drain()
                self.cuts += 1
                for one in list(self._lines):
                    one.end()
                return
            self._cut_left = left - len(data)
        await self._write(data, sink)

    async def _write(self, data: bytes, sink: _Writer) -> None:
        at = 0
        while at < len(data):
            piece = max(1, self._rate // _TICKS) if self._rate else len(data)
            began = time.monotonic()
            sink.write(data[at : at + piece])
            await sink.drain()
            at += piece
            if self._rate:
                await asyncio.sleep(max(0.0, 1 / _TICKS - (time.monotonic() - began)))

    async def _cut_commit(self, line: _Line, data: bytes) -> None:
        assert self._at_commit is not None
        (forward, refuse), self._at_commit = self._at_commit, None
        self.cuts += 1
        self._refuse = self._refuse or refuse
        # The client hears of it first: the answer must not slip through.
        line.client.transport.abort()
        if forward:
            answers = line.answers
            line.server.write(data)
            # The answer is read by the other pump, which finds nobody to give it to.
            while line.answers == answers:
                await asyncio.sleep(_LOOK_S)


class HeardProxy(Proxy):
    """Keeps in ``heard`` what clients have sent, and with ``answers`` what came back."""

    def __init__(self, target: int = 0, *, answers: bool = False) -> None:
        super().__init__(target)
        self.heard = b""
        self._hears_answers = answers

    async def _pass(self, line: _Line, data: bytes, sink: _Writer, *, answers: bool) -> None:
        if self._hears_answers or not answers:
            self.heard += data
        await super()._pass(line, data, sink, answers=answers)
