"""Other captures of a cluster as lenders of workers: who they are, and handing them tasks."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass

import cdc
from cdc.base.clock import Clock
from cdc.base.errors import TidegateError, TransientError, from_dict, text_of_foreign
from cdc.coord import election
from cdc.coord.contract import Store, StoreFailed
from cdc.coord.keys import Keys
from cdc.coord.messages import CaptureInfo
from cdc.coord.stored import readable
from cdc.server.api_tokens import ApiRole, Caller
from cdc.server.peers import Peers
from cdc.server.sealed import Seal, SealBroken
from processor.lending import Lender, LenderLost
from processor.task_messages import Ack, Descriptor

PATH = "/peers/tasks"
"""Where a capture takes tasks of others: a sealed message in, a sealed one out."""

_log = logging.getLogger("processor")
# Who lends is asked for by each large window.
_KNOWN_S = 2.0
_LOOK_S = 1.0
_CAPTURE = Caller("(capture)", ApiRole.VIEWER)
# What a lender needs beside the job itself.
_MORE_S = 30.0

Lend = Callable[[Sequence[Descriptor], str, float], list[Ack]]
"""Runs tasks of another capture: what they are, what they are called, and their time."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a capture asks another for; ``number`` is what its answer must have."""

    sender: str
    number: bytes
    descriptors: list[Descriptor]
    description: str
    timeout_s: float


class Lenders:
    """Of one capture; any thread."""

    def __init__(self, store: Store, keys: Keys, peers: Peers, clock: Clock) -> None:
        self._store = store
        self._keys = keys
        self._peers = peers
        self._clock = clock
        self._guard = threading.Lock()
        self._known: tuple[float, list[Lender]] = (0.0, [])
        self._seal: Seal | None = None

    def seal(self) -> Seal:
        """What messages between captures are sealed with. May raise StoreFailed."""
        with self._guard:
            if self._seal is None:
                self._seal = Seal(self._peers.secret(), self._clock)
            return self._seal

    def now(self) -> Sequence[Lender]:
        """Captures that take tasks of ours now: of our version, ready, and not drained.

        Who cannot be asked for lends nothing: a window needs none of them.
        """
        until, known = self._known
        if self._clock.monotonic() < until:
            return known
        try:
            known = self._asked()
        except StoreFailed as error:
            _log.info("nobody is asked for workers: %s", error)
            known = []
        self._known = self._clock.monotonic() + _KNOWN_S, known
        return known

    def _asked(self) -> list[Lender]:
        _, entries = self._store.range(self._keys.capture_prefix)
        there = [info for _, info in readable(entries, CaptureInfo) if _lends(info)]
        there = [info for info in there if info.id != self._peers.capture]
        if not there:
            return []
        drained = election.all_drained(self._store, self._keys)
        seal = self.seal()
        return [PeerLender(info, self._peers, seal) for info in there if info.id not in drained]


def _lends(info: CaptureInfo) -> bool:
    # Tasks are values of our own code, which another version may have changed.
    return info.ready and info.lends > 0 and info.version == cdc.__version__


class PeerLender:
    """One of them."""

    def __init__(self, info: CaptureInfo, peers: Peers, seal: Seal) -> None:
        self._info = info
        self._peers = peers
        self._seal = seal

    @property
    def capture(self) -> str:
        """Its id."""
        return self._info.id

    @property
    def tasks(self) -> int:
        """How many it runs at once."""
        return self._info.lends

    def run(
        self, descriptors: Sequence[Descriptor], description: str, timeout_s: float
    ) -> list[Ack]:
        """Their acknowledgements, in order. Raises LenderLost."""
        url = self._peers.url(self.capture)
        if not url:
            raise self._lost("it has gone")
        number = secrets.token_bytes(16)
        asked = _Asked(self._peers.capture, number, list(descriptors), description, timeout_s)
        message = self._seal.seal(asked, self.capture)
        sealed = self._answer(f"{url}{PATH}", message, timeout_s + _MORE_S)
        try:
            answered, done = self._seal.open(sealed, self._peers.capture)
        except SealBroken as error:
            raise self._lost(error.message) from error
        if answered != number:
            raise self._lost("its answer is another one's")
        if isinstance(done, dict):
            raise self._lost(str(from_dict(done)))
        acks: list[Ack] = done
        return acks

    def _answer(self, url: str, message: bytes, timeout_s: float) -> bytes:
        """What it answers, while its session lasts."""
        answer: Future[bytes] = Future()

        def ask() -> None:
            try:
                answer.set_result(self._sent(url, message, timeout_s))
            except BaseException as error:
                answer.set_exception(error)

        # A daemon: who is frozen is not waited for, and keeps no process from its end.
        threading.Thread(target=ask, name="lender", daemon=True).start()
        while not wait([answer], _LOOK_S).done:
            # One that is frozen takes requests, and never answers. What the store does not tell
            # now, it will: meanwhile the lender may be at work.
            with suppress(StoreFailed):
                if not self._peers.url(self.capture):
                    raise self._lost("its session has ended")
        return answer.result()

    def _sent(self, url: str, message: bytes, timeout_s: float) -> bytes:
        from cdc.base.http_client import httpx

        how = httpx.Timeout(timeout_s, connect=3.0)
        headers = {"authorization": f"Bearer {self._peers.token(_CAPTURE)}"}
        try:
            with httpx.Client(verify=self._peers.tls(), timeout=how, trust_env=False) as http:
                answer = http.post(url, content=message, headers=headers)
        except httpx.HTTPError as error:
            raise self._lost(f"{type(error).__name__}: {error}") from error
        if answer.status_code != 200:
            raise self._lost(f"it answers {answer.status_code}")
        return answer.content

    def _lost(self, why: str) -> LenderLost:
        return LenderLost(
            f"tasks that it was given are not done: {why}",
            object=f"capture {self.capture}",
            hint="delivery recovers by itself, without this capture for a while",
        )


class TasksRefused(TransientError):
    """Tasks of another capture cannot be run here now."""

    code = "TG:ErrTasksRefused"


class TaskTaker:
    """The other side: runs what another capture has sent, see :class:`PeerLender`."""

    def __init__(self, lenders: Lenders, peers: Peers, lend: Lend) -> None:
        self._lenders = lenders
        self._peers = peers
        self._capture = peers.capture
        self._lend = lend

    def knows(self, token: str) -> bool:
        """Whether a token is a capture's, before anything is read of a body. May raise StoreFailed.

        It may have been overheard: what is done is what the seal says.
        """
        return self._peers.caller(token) is not None

    def take(self, message: bytes) -> bytes:
        """The sealed answer to a sealed message. Raises SealBroken, StoreFailed.

        What goes wrong with the tasks is in the answer, as the ``to_dict`` of an error.
        """
        seal = self._lenders.seal()
        asked: _Asked = seal.open(message, self._capture)
        done: list[Ack] | dict[str, str]
        try:
            done = self._lend(asked.descriptors, asked.description, asked.timeout_s)
        except TidegateError as error:
            done = error.to_dict()
        except Exception as error:
            _log.warning("tasks of capture %s have failed", asked.sender, exc_info=True)
            done = TasksRefused(text_of_foreign(error), object=f"capture {self._capture}").to_dict()
        return seal.seal((asked.number, done), asked.sender)
