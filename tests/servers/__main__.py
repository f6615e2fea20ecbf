"""Servers from the command line: ``python -m tests.servers list | fetch NAME... | start NAME``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import AbstractContextManager

from tests.servers import install, schema_tools
from tests.servers.broker import Broker, broker, record_classes
from tests.servers.cache import size_mb
from tests.servers.catalogue import DEMO, SERVERS
from tests.servers.database import Database, database
from tests.servers.errors import Unavailable
from tests.servers.etcd import Etcd, etcd


def _list() -> int:
    for name, server in SERVERS.items():
        if not install.is_fetched(name):
            print(f"{name:14} not fetched{' (optional)' if server.optional else ''}")
            continue
        found = install.fetch(name)
        print(f"{name:14} {found.version_text}, {size_mb(found.base):.0f} MB")
    return 0


def _fetch(names: list[str]) -> int:
    """Fetch servers; a missing one fails the run in CI unless it is optional."""
    missing = []
    for name in names:
        try:
            found = install.fetch(name)
            if SERVERS[name].kind == "kafka":
                record_classes()
            print(f"{name}: {found.version_text}", flush=True)
        except Unavailable as error:
            print(error, file=sys.stderr, flush=True)
            if not SERVERS[name].optional:
                missing.append(name)
    return 1 if missing and os.environ.get("CI") == "true" else 0


def _start(name: str, options: list[str]) -> int:
    context: AbstractContextManager[Broker | Database | Etcd]
    if SERVERS[name].kind == "kafka":
        context = broker(dict(option.split("=", 1) for option in options))
    elif SERVERS[name].kind == "etcd":
        context = etcd(name, options=options)
    else:
        context = database(name, options=options)
    with context as server:
        if isinstance(server, Etcd):
            place, pid = server.address, server.members[0].pid
        else:
            place = server.bootstrap if isinstance(server, Broker) else server.uri()
            pid = server.pid
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        # A shell starts background jobs with SIGINT ignored, and Python then leaves it so.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            print(f"{place}  (pid {pid}, Ctrl-C ends it)", flush=True)
            signal.pause()
        except KeyboardInterrupt:
            print()
    return 0


def main() -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.servers")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="what is known and what is fetched")
    fetching = commands.add_parser("fetch", help="download into the cache")
    fetching.add_argument("names", nargs="*", choices=[*SERVERS, []], metavar="NAME")
    fetching.add_argument("--all", action="store_true", help="every server, optional ones too")
    fetching.add_argument("--demo", action="store_true", help="what the demo needs")
    starting = commands.add_parser("start", help="run one until Ctrl-C")
    not_startable = ("prometheus", "chromium", "jars")
    startable = [n for n, s in SERVERS.items() if s.kind not in not_startable]
    starting.add_argument("name", choices=startable)
    starting.add_argument("options", nargs="*", help="after --: more server options")
    chosen = parser.parse_args()
    if chosen.command == "list":
        return _list()
    if chosen.command == "start":
        return _start(chosen.name, chosen.options)
    names = list(SERVERS) if chosen.all else [*chosen.names, *(DEMO if chosen.demo else ())]
    tools = schema_tools.fetch() if chosen.all else True
    return _fetch(names) or int(not tools and os.environ.get("CI") == "true")


if __name__ == "__main__":
    sys.exit(main())
