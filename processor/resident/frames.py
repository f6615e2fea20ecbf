"""What a capture and its resident workers say to each other, over a pair of sockets."""

from __future__ import annotations

import pickle
import socket
import struct
from dataclasses import dataclass
from typing import Any, BinaryIO

from processor.chunk_reading import ChunkRead, ChunkTask
from processor.task_messages import Ack, Descriptor

_LENGTH = struct.Struct("!Q")


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """A worker serves; its process id."""

    pid: int


@dataclass(frozen=True, slots=True)
class WindowAsked:
    """A window to deliver; ``number`` tells its answer."""

    number: int
    descriptor: Descriptor


@dataclass(frozen=True, slots=True)
class ChunkAsked:
    """Rows of a table to read; ``number`` as of a window."""

    number: int
    task: ChunkTask


@dataclass(frozen=True, slots=True)
class FeedsKept:
    """The changefeeds that run; a worker gives back what it has of others."""

    feeds: frozenset[str]


@dataclass(frozen=True, slots=True)
class FeedsHeard:
    """The answer to :class:`FeedsKept`, at once and whatever is under way: the worker lives."""


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """What became of a window or chunk; without ``done``, what was raised that is none of ours."""

    number: int
    done: Ack | ChunkRead | None = None
    raised: str = ""


Message = WorkerReady | WindowAsked | ChunkAsked | FeedsKept | FeedsHeard | TaskAnswer


def send(to: socket.socket, message: Message) -> None:
    """Send one message. Raises OSError."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    to.sendall(_LENGTH.pack(len(body)) + body)


def receive(stream: BinaryIO) -> Any:
    """The next message. Raises EOFError at the end, and OSError."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    body = stream.read(length)
    if len(body) < length:
        raise EOFError
    # Both ends are processes of one capture, and nobody else has the sockets.
    return pickle.loads(body)
