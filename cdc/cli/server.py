"""``cdc server``: one capture with its API, until a signal."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from cdc.base import egress, own_token
from cdc.base.clock import SystemClock
from cdc.base.errors import TransientError
from cdc.server.data_dir import DataDir
from cdc.server.listener import bind
from cdc.server.open_files import allow_open_files
from cdc.server.settings import LogLevel, ServerSettings, load

if TYPE_CHECKING:
    from processor.resident.spawner import Spawner

# A thousand changefeeds are a million objects, few of them ever in a cycle: looking for these after
# each 700 new ones took a third of what an idle capture did.
_COLLECTED_AFTER = (20_000, 20, 50)
_log = logging.getLogger("server")
# Ctrl-C must end within 10 s, whatever hangs; kill -9 is always safe.
_STOP_S = 9.0
_LOOK_S = 0.5
_STOPS = (signal.SIGINT, signal.SIGTERM)
# Its port, for a process that begins anew in the place of one that has lost its session.
_BEGUN_ANEW = "TIDEGATE_BEGUN_ANEW"
# Told to own nothing, which holds until the process is started anew.
_DRAINED = "TIDEGATE_DRAINED"

_T = TypeVar("_T")


def server(
    data_dir: Annotated[Path | None, typer.Option(help="Where logs and state lie.")] = None,
    addr: Annotated[str | None, typer.Option(help="Address of the API, host:port.")] = None,
    advertise_addr: Annotated[str | None, typer.Option(help="The same, as seen by others.")] = None,
    ca: Annotated[
        Path | None, typer.Option(help="PEM file: clients of the API must show its certificates.")
    ] = None,
    cert: Annotated[Path | None, typer.Option(help="PEM file: the API's certificate.")] = None,
    key: Annotated[Path | None, typer.Option(help="PEM file: its key.")] = None,
    cert_allowed_cn: Annotated[
        str | None, typer.Option(help="Common names of clients' certificates, with commas.")
    ] = None,
    spark_master: Annotated[str | None, typer.Option(help="local[*] or spark://host:port.")] = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            "--pd",
            help="Coordination store: embedded, or etcd://host:port,host:port/prefix.",
        ),
    ] = None,
    cluster_id: Annotated[str | None, typer.Option(help="Name of the cluster.")] = None,
    log_level: Annotated[LogLevel | None, typer.Option(help="How much to log.")] = None,
    log_file: Annotated[Path | None, typer.Option(help="Log there instead of stderr.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file; flags win over it.")] = None,
) -> None:
    """Run a capture until Ctrl-C or SIGTERM."""
    flags = {
        "data_dir": data_dir,
        "addr": addr,
        "advertise_addr": advertise_addr,
        "ca": ca,
        "cert": cert,
        "key": key,
        "cert_allowed_cn": cert_allowed_cn and cert_allowed_cn.split(","),
        "spark_master": spark_master,
        "store": store,
        "cluster_id": cluster_id,
        "log_level": log_level,
        "log_file": log_file,
    }
    run(load(config, flags))


def run(settings: ServerSettings) -> None:
    """Run a capture; returns after a clean stop."""
    # What this process and its children write holds rows and passwords.
    os.umask(0o077)
    allow_open_files()
    egress.install(settings.security.egress)
    tls = settings.security.tls()
    data_dir = DataDir(settings.data_dir)
    before = int(os.environ.get(_BEGUN_ANEW, 0))
    sock = bind(settings.host, before or settings.port, plain=tls is None)
    # What follows loads numba; a wrong flag should not wait for it.
    from processor.spark.context import ContextStart, may_be_forked

    # Nothing that is loaded is garbage, and to look for some again and again takes 0.3 s.
    gc.disable()
    spawner = None
    if may_be_forked(settings.processor):
        spawner = _fork_daemon(data_dir.spark, settings.processor.resident_workers)
    # What is loaded below takes as long as its JVM. Of a process that begins anew signals are still
    # blocked, and would be in all that the JVM starts.
    later = before or settings.processor.spark_waits
    begun = None if later else ContextStart(settings.processor, data_dir.spark)
    from cdc.server.capture import Capture
    from cdc.server.logging_setup import configure
    from cdc.server.pulling import RealSource

    configure(settings)
    if data_dir.mended:
        _log.warning("%d paths were open to others and are closed now", data_dir.mended)
    stop = threading.Event()
    for number in _STOPS:
        signal.signal(number, lambda *_: stop.set())
    # What came while there was no handler, see below, comes now.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
    port = sock.getsockname()[1]
    address = f"{settings.host}:{port}"
    token = own_token.load_or_make(data_dir.token)
    if not own_token.note(_reached_at(settings, port), data_dir.token):
        _log.warning("no state folder of this user: cdc cli needs --token-file %s", data_dir.token)
    clock = SystemClock()

    def made() -> Capture:
        source = RealSource(settings, clock)
        drained = _DRAINED in os.environ
        return Capture(
            *(settings, data_dir, address, source, clock),
            drained=drained,
            begun=begun,
            spawner=spawner,
        )

    capture = _patiently(made, stop) if before else made()
    if capture is None:
        return
    capture.start()
    try:
        # Rows wait for nothing that is only there to be asked; who asks waits at the socket.
        from cdc.api.serve import serve

        api = serve(capture, sock, token, tls)
    except BaseException:
        capture.stop()
        raise
    gc.freeze()
    gc.enable()
    gc.set_threshold(*_COLLECTED_AFTER)
    _log.info("listening on http%s://%s", "s" if tls else "", address)
    while not stop.wait(_LOOK_S) and not capture.lost.is_set():
        pass
    _log.info("stopping")
    stopped = threading.Event()

    def end() -> None:
        if not capture.lost.is_set() or stop.is_set():
            os._exit(0 if stopped.is_set() else 1)
        # Nothing of a process that others take for dead is worth keeping.
        _log.info("beginning anew")
        sys.stderr.flush()
        command = [sys.executable, *sys.orig_argv[1:]]
        # A stop that comes before the handlers are there again must wait for them.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        kept = {_BEGUN_ANEW: str(port)} | ({_DRAINED: "1"} if capture.drained else {})
        os.execve(sys.executable, command, {**os.environ, **kept})

    last_resort = threading.Timer(_STOP_S, end)
    last_resort.daemon = True
    last_resort.start()
    api.stop()
    capture.stop()
    if capture.lost.is_set() and not stop.is_set():
        end()
    # The last resort stays: Python waits at its end for a Spark that is still being started.
    stopped.set()


def _fork_daemon(scratch: Path, resident: bool) -> Spawner | None:
    """Fork what workers come of, before there are threads; else those of Spark load by themselves.

    What forks ``resident`` workers, if they are wanted and there is something to fork them. What
    both need is loaded before, once, a kernel for what is numba's own among it; other kernels are
    loaded there, and all else here, side by side.
    """
    from cdc.kernels.crc import crc32
    from processor.resident.spawner import Spawner
    from processor.spark import forked_daemon
    from processor.spark.task import load_modules

    load_modules()
    crc32.load()
    try:
        if not resident:
            forked_daemon.fork(forked_daemon.address(scratch))
            return None
        ours, theirs = socket.socketpair()
        with theirs:
            forked_daemon.fork(forked_daemon.address(scratch), theirs)
        return Spawner(ours)
    except OSError as e:
        _log.warning("Spark's workers load by themselves: %s", e)
        return None


def _patiently(make: Callable[[], _T], stop: threading.Event) -> _T | None:
    """What ``make`` makes, once the store answers again; None if the process is to end."""
    while not stop.is_set():
        try:
            return make()
        except TransientError as e:
            _log.warning("%s", e)
            stop.wait(_LOOK_S)
    return None


def _reached_at(settings: ServerSettings, port: int) -> list[tuple[str, int]]:
    reached = [(settings.host, port)]
    if settings.advertise_addr:
        host, _, advertised = settings.advertise_addr.rpartition(":")
        reached.append((host.strip("[]"), int(advertised)))
    return reached
