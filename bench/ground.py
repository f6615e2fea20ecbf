"""Where the measurements run: one database server, and a broker with its log in memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import load
from tests.servers import broker, database
from tests.servers.broker import Broker
from tests.servers.database import Database

_MEMORY = Path("/dev/shm")
# For both sides alike: large socket buffers, and room for both producers' requests.
_BROKER = {
    "socket.send.buffer.bytes": "1048576",
    "socket.receive.buffer.bytes": "1048576",
    "socket.request.max.bytes": "268435456",
    "num.network.threads": "2",
    "message.max.bytes": "10485760",
    "num.io.threads": "4",
}


@dataclass(frozen=True)
class Ground:
    """Both servers; the table is there and empty."""

    database: Database
    broker: Broker


@contextmanager
def ground(
    name: str,
    options: Sequence[str] = (),
    *,
    memory: bool = True,
    broker_options: Mapping[str, str] | None = None,
) -> Iterator[Ground]:
    """Start both servers, and remove everything at the end; without ``memory`` all is on disk."""
    with ExitStack() as stack:
        parent = _MEMORY if memory and _MEMORY.is_dir() else os.environ.get("TIDEGATE_TMP")
        folder = tempfile.mkdtemp(prefix="tidegate-bench-", dir=parent)
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        db = stack.enter_context(database(name, options=["--max-allowed-packet=64M", *options]))
        kafka = stack.enter_context(
            broker(
                _BROKER | dict(broker_options or {}),
                heap="1g",
                log_folder=Path(folder) / "log",
                optimized=True,
            )
        )
        db.execute(*load.CREATE)
        yield Ground(db, kafka)
