"""Waking readers in the process of the writer, so that waiting costs no polling there."""

from __future__ import annotations

import os
import threading
from pathlib import Path


class Channel:
    """Says how far the writer of one log has resolved, as long as there is one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._resolved = 0
        self._open = True

    def publish(self, resolved_ts: int) -> None:
        """A group commit is durable."""
        with self._changed:
            self._resolved = resolved_ts
            self._changed.notify_all()

    def close(self) -> None:
        """The writer is gone; waiting readers must go back to looking at the manifest."""
        with self._changed:
            self._open = False
            self._changed.notify_all()

    def wait(self, resolved_above: int, timeout_s: float) -> bool:
        """Wait for a resolved ts above the given one; False if the writer went away."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._resolved > resolved_above or not self._open, timeout_s
            )
            return self._open


_channels: dict[str, Channel] = {}
_guard = threading.Lock()


def _key(folder: Path) -> str:
    return os.path.realpath(folder)


def announce(folder: Path) -> Channel:
    """A new channel for the writer of this log."""
    channel = Channel()
    with _guard:
        _channels[_key(folder)] = channel
    return channel


def withdraw(folder: Path, channel: Channel) -> None:
    """End a channel."""
    with _guard:
        if _channels.get(_key(folder)) is channel:
            del _channels[_key(folder)]
    channel.close()


def find(folder: Path) -> Channel | None:
    """The channel of the log's writer, if it lives in this process."""
    with _guard:
        return _channels.get(_key(folder))
