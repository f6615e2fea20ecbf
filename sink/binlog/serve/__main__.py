"""``python -m sink.binlog.serve FOLDER``: serve the files of a binlog sink to replicas."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from pydantic import SecretStr

from sink.binlog.serve.server import BinlogServer

_ENDS = {signal.SIGINT, signal.SIGTERM}


def main() -> int:
    """Listen until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m sink.binlog.serve", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", default="binlog", help="how the names of the files begin")
    parser.add_argument("--listen", default="127.0.0.1:3307", metavar="HOST:PORT")
    parser.add_argument("--user", default="replica", help="whom replicas log in as")
    parser.add_argument("--password-file", type=Path, required=True)
    parser.add_argument("--server-id", type=int, required=True, help="none of the replicas'")
    given = parser.parse_args()
    host, _, port = given.listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        parser.error("--listen is not HOST:PORT")
    if not 0 < given.server_id < 1 << 32:
        parser.error("--server-id is not from 1 to 4294967295")
    try:
        password = given.password_file.read_text().rstrip("\n")
        if not password:
            parser.error("the password is empty")
        if not given.folder.is_dir():
            parser.error(f"{given.folder} is no folder")
        server = BinlogServer(
            given.folder, given.name, given.user, SecretStr(password), given.server_id,
            host.strip("[]"), int(port),
        )  # fmt: skip
        # Before there is a thread: each begins with the signals that are blocked here.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
        server.start()
    except OSError as e:
        print(f"{e.filename or given.listen}: {e.strerror or e}", file=sys.stderr)
        return 1
    print(f"serving {given.folder} at {host}:{server.port}", flush=True)
    signal.sigwait(_ENDS)
    server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
