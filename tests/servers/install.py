"""Servers of the catalogue, unpacked in the cache and ready to start."""

from __future__ import annotations

import json
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.servers import cache, chromium, debian, maven
from tests.servers.catalogue import (
    SERVERS,
    TOOL_SOURCES,
    DebianPackages,
    Kind,
    MavenArtifact,
    Server,
)
from tests.servers.errors import Unavailable


@dataclass(frozen=True)
class Installed:
    """An unpacked server: where it is and how its programs are run."""

    name: str
    kind: Kind
    base: Path
    version: tuple[int, ...]
    version_text: str
    packages: dict[str, str]

    def program(self, *names: str) -> list[str] | None:
        """Return the start of a command line for the first of ``names`` that is here."""
        for name in names:
            path = self.base / "bin" / name
            if path.exists():
                return [*_loaded(self.base), str(path)]
        return None

    @property
    def libraries(self) -> str | None:
        """Return the folder that LD_LIBRARY_PATH needs, if any."""
        private = self.base / "lib/private"
        return str(private) if private.is_dir() else None

    @property
    def share(self) -> Path:
        """Return the folder of messages, character sets and start-up SQL."""
        return self.base / "share"

    def server_command(self) -> list[str]:
        """Return the command line of the database server, without options of a data folder."""
        command = self.program("mariadbd", "mysqld", "etcd", "prometheus")
        assert command is not None, self.base
        if self.kind in ("etcd", "prometheus"):
            return command
        command += ["--no-defaults", f"--basedir={self.base}"]
        if (self.base / "plugin").is_dir():
            command += [
                f"--lc-messages-dir={self.share}",
                f"--character-sets-dir={self.share / 'charsets'}",
                f"--plugin-dir={self.base / 'plugin'}",
            ]
        return command


def _loaded(base: Path) -> list[str]:
    """Return what stands before a program of Debian's: its own loader and libraries."""
    loader = base / "lib/ld.so"
    return [str(loader), "--library-path", str(base / "lib")] if loader.exists() else []


def place(server: Server) -> Path:
    """Return the cache folder of a server."""
    return cache.root() / "servers" / server.name / server.fingerprint


def is_fetched(name: str) -> bool:
    """Say whether a server is in the cache."""
    return place(SERVERS[name]).exists()


def fetch(name: str) -> Installed:
    """Return the server called ``name``, fetched first if it is not in the cache."""
    server = SERVERS[name]
    base = cache.entry(place(server), lambda folder: _build(server, folder))
    info = json.loads((base / "installed.json").read_text())
    return Installed(
        name,
        server.kind,
        base,
        tuple(info["version"]),
        info["version_text"],
        info["packages"],
    )


def _build(server: Server, base: Path) -> None:
    print(f"{server.name}: fetching ...", flush=True)
    begun = time.monotonic()
    packages: dict[str, str] = {}
    if isinstance(server.origin, Path):
        maven.unpack_jars(server.name, server.origin, base)
    elif isinstance(server.origin, MavenArtifact):
        maven.unpack_server(server.name, server.origin, base)
    elif server.kind == "chromium":
        packages = chromium.unpack(server.name, server.origin, base)
    else:
        packages = debian.unpack_server(server.name, server.origin, base)
    if isinstance(server.extra, DebianPackages):
        private = base / "lib/private"
        private.mkdir(parents=True, exist_ok=True)
        debian.take_libraries(server.name, server.extra, private)
    version_text = _version(server, base)
    version = tuple(int(part) for part in re.findall(r"\d+", version_text)[:3])
    info = {"version": version, "version_text": version_text, "packages": packages}
    (base / "installed.json").write_text(json.dumps(info, indent=1) + "\n")
    seconds = time.monotonic() - begun
    print(
        f"{server.name}: {version_text}, {cache.size_mb(base):.0f} MB, {seconds:.0f} s", flush=True
    )


_NAMED_BY = {
    "kafka-4.1": "kafka-clients-",
    "spark-kafka-4.2": "spark-sql-kafka-0-10_2.13-",
    "flink-2.1": "flink-table-runtime-",
    "connect-jdbc-3.5": "debezium-connector-jdbc-",
}
"""By whose version a folder of jars is called: the jar's name up to it."""


def _version(server: Server, base: Path) -> str:
    if prefix := _NAMED_BY.get(server.name):
        (jar,) = (base / "lib").glob(f"{prefix}*.jar")
        return jar.stem.removeprefix(prefix)
    if server.kind == "chromium":
        return chromium.version(server.name, base)
    command = Installed(server.name, server.kind, base, (), "", {}).server_command()
    private = base / "lib/private"
    done = subprocess.run(
        [*command, "--version"],
        env={"LD_LIBRARY_PATH": str(private)} if private.is_dir() else {},
        capture_output=True,
        text=True,
        check=False,
    )
    match = re.search(r"(?:Ver(?:sion:)?|, version) (\S+)", done.stdout)
    if match is None:
        raise Unavailable(server.name, "it does not run here: " + done.stdout + done.stderr)
    return match[1]


def find_tool(kind: Kind, own: Installed, *names: str) -> tuple[Installed, list[str]]:
    """Return the server that has a client program for servers of ``kind``, and its command."""
    command = own.program(*names)
    if command is not None and _runs(own, command):
        return own, command
    reasons = []
    for source in TOOL_SOURCES[kind]:
        try:
            other = fetch(source)
        except Unavailable as error:
            reasons.append(str(error))
            continue
        command = other.program(*names)
        if command is not None:
            return other, command
    raise Unavailable(names[0], "; ".join(reasons) or "no server of the catalogue brings it")


def _runs(own: Installed, command: list[str]) -> bool:
    """Say whether a program starts here: some need libraries that a bare system lacks."""
    environment = {"LD_LIBRARY_PATH": own.libraries} if own.libraries else {}
    try:
        done = subprocess.run(
            [*command, "--version"], env=environment, capture_output=True, check=False
        )
    except OSError:
        return False
    return done.returncode == 0
