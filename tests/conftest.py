"""Fixtures of real servers; each pytest worker has its own."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import pytest

# Kernels come out of the same cache that set-up filled; numba reads this at its import.
os.environ.setdefault(
    "NUMBA_CACHE_DIR",
    str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate/numba"),
)

from tests import seeds, servers
from tests.servers import process

Server = TypeVar("Server")
_SERVER_FIXTURES = {"mariadb", "mysql", "database", "broker"}
_TURN = re.compile(r"Z (WARNING|ERROR) |: (starting,|ready$|stopped$)|beginning anew| owner now")


def _obtain(make: Callable[[], Server]) -> Server:
    """Return what ``make`` makes; a server that cannot be had skips the test, but fails in CI."""
    try:
        return make()
    except servers.Unavailable as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


def pytest_configure(config: pytest.Config) -> None:
    """Draw the run's seed, before workers are started; let Ctrl-C reach what tests start."""
    seeds.draw()
    # A shell starts background jobs with SIGINT ignored, and whoever is started by them has it so.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which seed the run had."""
    terminalreporter.write_line(f"seed of this run: SEED={seeds.seed()}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that asks for a server as ``real``."""
    for item in items:
        if _SERVER_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.real)


def _turns(log: Path) -> str:
    """When a capture began and ended, and what troubled it."""
    lines = log.read_text(errors="replace").splitlines()
    return "\n".join([line[:300] for line in lines if _TURN.search(line)][-30:])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the captures and the servers of a failed test wrote last."""
    report = yield
    if report.failed:
        folder = getattr(item, "funcargs", {}).get("tmp_path")
        for log in sorted(folder.rglob("capture.log")) if folder is not None else ():
            report.sections.append((f"turns of {log.relative_to(folder)}", _turns(log)))
        for name, value in getattr(item, "funcargs", {}).items():
            log = getattr(value, "log", None)
            if isinstance(log, Path):
                report.sections.append((f"end of {name}'s log", process.tail(log, 60)))
    return report


@pytest.fixture(scope="session")
def database() -> Iterator[Callable[..., servers.Database]]:
    """Return a function: ``database("mysql-9.7", options=[...], gtid=True, tls=False)``.

    It gives a running server, one for the whole session for the same arguments. A test that
    kills, stops or reconfigures its server uses `tests.servers.database` itself.
    """
    running: dict[str, servers.Database] = {}
    with ExitStack() as stack:

        def give(name: str, **settings: object) -> servers.Database:
            key = repr((name, sorted(settings.items())))
            if key not in running:
                context = servers.database(name, **settings)  # type: ignore[arg-type]
                running[key] = _obtain(lambda: stack.enter_context(context))
            return running[key]

        yield give


@pytest.fixture(scope="session")
def mariadb(database: Callable[..., servers.Database]) -> servers.Database:
    """Return the session's MariaDB 11.4."""
    return database("mariadb-11.4")


@pytest.fixture(scope="session")
def mysql(database: Callable[..., servers.Database]) -> servers.Database:
    """Return the session's MySQL 8.0."""
    return database("mysql-8.0")


@pytest.fixture(scope="session")
def broker() -> Iterator[servers.Broker]:
    """Return the session's Kafka broker."""
    with ExitStack() as stack:
        yield _obtain(lambda: stack.enter_context(servers.broker()))


@pytest.fixture
def fresh_name(request: pytest.FixtureRequest) -> str:
    """Return a name that no other test of this run uses: a schema, a topic prefix.

    At most 48 characters of ``a-z0-9_``.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    count = request.config.stash.get(_COUNT, 0) + 1
    request.config.stash[_COUNT] = count
    stem = re.sub(r"[^a-z0-9]+", "_", request.node.name.lower())[:32].strip("_")
    return f"t_{worker}_{count}_{stem}"


@pytest.fixture
def schema_name(fresh_name: str) -> str:
    """Return a schema name of this test alone; the test creates it."""
    return fresh_name


@pytest.fixture
def topic_prefix(fresh_name: str) -> str:
    """Return a prefix for topics of this test alone."""
    return fresh_name


_COUNT: pytest.StashKey[int] = pytest.StashKey()
