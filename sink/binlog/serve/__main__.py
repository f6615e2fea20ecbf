"""``python -m sink.binlog.serve FOLDER``: serve the files of a binlog sink to replicas."""

from __future__ import annotations

import argparse
import signal
import ssl
import sys
from pathlib import Path

from pydantic import SecretStr

from cdc.base.hosts import is_loopback
from sink.binlog.serve.login import ReplicaAccess
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
    parser.add_argument("--cert", type=Path, help="PEM file; whoever connects must use TLS then")
    parser.add_argument("--key", type=Path, help="PEM file of the certificate's key")
    parser.add_argument("--no-tls", action="store_true", help="listen to others without TLS")
    given = parser.parse_args()
    host, _, port = given.listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        parser.error("--listen is not HOST:PORT")
    if bool(given.cert) != bool(given.key):
        parser.error("--cert and --key belong together")
    if not (is_loopback(host) or given.cert or given.no_tls):
        parser.error("--listen to others takes --cert and --key, or --no-tls if all can be trusted")
    if not 0 < given.server_id < 1 << 32:
        parser.error("--server-id is not from 1 to 4294967295")
    try:
        password = given.password_file.read_text().rstrip("\n")
        if not password:
            parser.error("the password is empty")
        if not given.folder.is_dir():
            parser.error(f"{given.folder} is no folder")
        access = ReplicaAccess(given.user, SecretStr(password), _context(given.cert, given.key))
        server = BinlogServer(
            given.folder, given.name, access, given.server_id, host.strip("[]"), int(port)
        )
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


def _context(cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """What a certificate is shown with, None without one. Raises OSError."""
    if cert is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    return context


if __name__ == "__main__":
    sys.exit(main())
