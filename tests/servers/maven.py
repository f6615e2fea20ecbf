"""Archives and jars out of Maven repositories, by Maven's own settings."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import tarfile
import zipfile
from pathlib import Path

from tests.servers.catalogue import MavenArtifact
from tests.servers.errors import Unavailable

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_MYSQL_FILES = re.compile(
    r"(?:^|/)((?:bin/(?:mysqld|mysql|mysqladmin|mysqlbinlog|mysqldump|my_print_defaults|resolveip)"
    r"|lib/private/.*|lib/plugin/[^/]*\.so|share/.*|scripts/.*|support-files/my-default.*))$"
)
_MARIADB_FILES = re.compile(r"/linux/(.+)$")


def run(name: str, *arguments: str) -> None:
    """Run Maven quietly; raise `Unavailable` with the error's first line."""
    program = shutil.which("mvn")
    if program is None:
        raise Unavailable(name, "Maven (mvn) is not installed")
    done = subprocess.run(
        [program, "-q", "-B", "-ntp", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        text = done.stdout + done.stderr
        lines = [line for line in text.splitlines() if "ERROR" in line] or [text]
        raise Unavailable(name, "Maven: " + lines[0])


def sha256(path: Path) -> str:
    """Return the file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpack_server(name: str, artifact: MavenArtifact, base: Path) -> None:
    """Fetch ``artifact``, check it, and put what a server needs below ``base``, stripped."""
    download = base / "download"
    run(
        name,
        f"{_PLUGIN}:copy",
        f"-Dartifact={artifact.coordinates}",
        f"-DoutputDirectory={download}",
    )
    (archive,) = download.iterdir()
    found = sha256(archive)
    if found != artifact.sha256:
        raise Unavailable(name, f"{archive.name} has sha256 {found}, expected {artifact.sha256}")
    if artifact.inner:
        _unpack_inner(archive, artifact.inner, base)
    else:
        _unpack_zip(archive, base)
    shutil.rmtree(download)
    strip(base / "bin")
    strip(base / "lib")


def _unpack_inner(archive: Path, inner: str, base: Path) -> None:
    """Unpack the tar archive called ``inner`` that lies in the zip ``archive``."""
    with (
        zipfile.ZipFile(archive) as opened,
        opened.open(inner) as source,
        tarfile.open(fileobj=source, mode="r|*") as packed,
    ):
        packed.extractall(base, filter="data")


def _unpack_zip(archive: Path, base: Path) -> None:
    wanted = _MARIADB_FILES if archive.suffix == ".jar" else _MYSQL_FILES
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            match = wanted.search(member.filename)
            if match is None or member.is_dir() or "group_replication" in member.filename:
                continue
            _write(opened, member, base / match[1])


def _write(opened: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if stat.S_ISLNK(member.external_attr >> 16):
        path.symlink_to(opened.read(member).decode())
        return
    with opened.open(member) as source, path.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    if path.parent.name in ("bin", "scripts"):
        path.chmod(0o755)


def strip(folder: Path) -> None:
    """Take debugging symbols out of programs and libraries, where binutils is there."""
    program = shutil.which("strip")
    if program is None or not folder.is_dir():
        return
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
        os.chmod(path, path.stat().st_mode | stat.S_IWUSR)
        subprocess.run([program, "--strip-debug", str(path)], capture_output=True, check=False)


def unpack_jars(name: str, pom: Path, base: Path) -> None:
    """Fetch the jars of ``pom`` into ``base/lib`` and check them against its list of sums."""
    run(
        name,
        "-f",
        str(pom),
        f"{_PLUGIN}:copy-dependencies",
        f"-DoutputDirectory={base / 'lib'}",
        "-DincludeScope=runtime",
    )
    found = {path.name: sha256(path) for path in (base / "lib").iterdir()}
    sums = pom.with_name(pom.name.replace(".pom.xml", ".sha256"))
    expected = dict(reversed(line.split()) for line in sums.read_text().splitlines())
    if found != expected:
        wrong = sorted(n for n in found.keys() | expected if found.get(n) != expected.get(n))
        raise Unavailable(name, f"jars other than the pinned ones: {', '.join(wrong)}")
