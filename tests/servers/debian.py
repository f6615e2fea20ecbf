"""Packages of a Debian suite, unpacked without root and run by the suite's own loader.

apt works on a private state (its own lists, cache and an empty status file), so nothing of the
system is touched and the whole dependency closure, libc included, is fetched. Of it only the
programs asked for and the libraries that they load are kept.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.servers.catalogue import DebianPackages
from tests.servers.errors import Unavailable
from tests.servers.maven import strip

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_TRIPLET = "x86_64-linux-gnu"


def mirror(name: str) -> str:
    """Return the address of the machine's own Debian mirror, as its apt sources have it."""
    etc = Path("/etc/apt")
    files = [*sorted(etc.glob("sources.list.d/*.sources")), *sorted(etc.glob("sources.list*"))]
    files += sorted(etc.glob("sources.list.d/*.list"))
    for file in files:
        if not file.is_file():
            continue
        for line in file.read_text().splitlines():
            match = re.match(r"(?:URIs:|deb(?: \[[^]]*\])?) +(\S*/debian)/?(?: |$)", line)
            if match:
                return match[1]
    raise Unavailable(name, "apt's sources name no Debian mirror")


def _private_apt(name: str, source: DebianPackages, folder: Path) -> dict[str, str]:
    """Lay out apt's private state in ``folder``; return the environment that makes apt use it."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise Unavailable(name, "it comes from Debian, and apt's client is not installed")
    if not _KEYRING.exists():
        raise Unavailable(name, f"it comes from Debian, and {_KEYRING} is not there")
    for part in ("parts", "preferences", "lists/partial", "cache/archives/partial", "state"):
        (folder / part).mkdir(parents=True)
    (folder / "state/status").touch()
    # The machine's own settings (proxy, certificates), less hooks that would act on its cache.
    for file in Path("/etc/apt/apt.conf.d").glob("*"):
        if os.access(file, os.R_OK) and "Post-Invoke" not in file.read_text():
            shutil.copy(file, folder / "parts")
    address, suite = mirror(name), source.suite
    lines = [f"deb [signed-by={_KEYRING}] {address} {suite} main"]
    if source.security:
        lines.append(f"deb [signed-by={_KEYRING}] {address}-security {suite}-security main")
        lines.append(f"deb [signed-by={_KEYRING}] {address} {suite}-updates main")
    (folder / "sources.list").write_text("\n".join(lines) + "\n")
    settings = {
        "Dir::Etc::Parts": folder / "parts",
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::Etc::preferences": "-",
        "Dir::Etc::preferencesparts": folder / "preferences",
        "Dir::State": folder / "state",
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "state/status",
        "Dir::Cache": folder / "cache",
        "Dir::Log": folder / "state",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
        "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled": "false",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "Debug::NoLocking": "true",
    }
    (folder / "apt.conf").write_text("".join(f'{k} "{v}";\n' for k, v in settings.items()))
    return {**os.environ, "APT_CONFIG": str(folder / "apt.conf"), "LC_ALL": "C"}


def _apt(name: str, environment: dict[str, str], *arguments: str, cwd: Path | None = None) -> None:
    done = subprocess.run(
        ["apt-get", "-qq", "-y", "--no-install-recommends", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        raise Unavailable(name, "apt: " + (lines or [done.stderr])[0])


def download(name: str, source: DebianPackages, work: Path) -> tuple[Path, dict[str, str]]:
    """Unpack the closure of ``source`` into ``work/all``.

    Returns that folder and the versions of the packages that were asked for.
    """
    state = work / "apt"
    environment = _private_apt(name, source, state)
    _apt(name, environment, "update")
    pins = dict(source.pins)
    pinned = [f"{p}={pins[p]}" if p in pins else p for p in source.packages]
    try:
        _apt(name, environment, "--download-only", "install", *pinned)
    except Unavailable:
        if not pins:
            raise
        print(f"{name}: {source.suite} has moved on from {pins}; taking its newer version")
        _apt(name, environment, "--download-only", "install", *source.packages)
    unpacked = work / "all"
    versions = {}
    for archive in sorted((state / "cache/archives").glob("*.deb")):
        package, version, _ = archive.name.split("_")
        versions[package] = version.replace("%3a", ":")
        subprocess.run(["dpkg-deb", "-x", str(archive), str(unpacked)], check=True)
    _add_plugins(name, source, work, environment)
    return unpacked, {package: versions[package] for package in source.packages}


def _add_plugins(
    name: str, source: DebianPackages, work: Path, environment: dict[str, str]
) -> None:
    """Put plugins of packages that are not installed beside the others."""
    for plugin, package in source.plugins:
        alone = work / "alone"
        alone.mkdir()
        _apt(name, environment, "download", package, cwd=alone)
        (archive,) = alone.glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", str(archive), str(alone)], check=True)
        folder = work / "all/usr/lib/mysql/plugin"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(alone / "usr/lib/mysql/plugin" / plugin, folder)
        shutil.rmtree(alone)


def loader(unpacked: Path) -> Path:
    """Return the suite's dynamic loader: the file itself, as links to it may be absolute."""
    for folder in ("usr/lib", "lib"):
        for path in sorted((unpacked / folder).rglob("ld-[0-9l]*.so*")):
            if path.is_file() and not path.is_symlink():
                return path
    raise FileNotFoundError("no dynamic loader among the packages")


def library_folders(unpacked: Path) -> list[Path]:
    """Return the folders of an unpacked suite that have its shared libraries."""
    folders = [unpacked / f"usr/lib/{_TRIPLET}", unpacked / f"lib/{_TRIPLET}"]
    return [folder for folder in folders if folder.is_dir()]


def take_libraries(name: str, source: DebianPackages, target: Path) -> None:
    """Put the shared libraries that ``source`` names into ``target``."""
    work = target / ".work"
    unpacked, _ = download(name, source, work)
    for library in source.libraries:
        found = next(unpacked.rglob(library))
        shutil.copy(found.resolve(), target / library)
    shutil.rmtree(work)


def unpack_server(name: str, source: DebianPackages, base: Path) -> dict[str, str]:
    """Put the programs of ``source`` into ``base/bin``, with libraries, messages and plugins.

    ``base/lib`` gets the loader as ``ld.so`` and every library that a program loads. Returns the
    versions of the packages.
    """
    work = base / ".work"
    unpacked, versions = download(name, source, work)
    search = ":".join(str(folder) for folder in library_folders(unpacked))
    for folder in ("bin", "lib", "plugin"):
        (base / folder).mkdir()
    own = shutil.copy(loader(unpacked), base / "lib/ld.so")
    for plugin in sorted((unpacked / "usr/lib/mysql/plugin").glob("*.so")):
        if "group_replication" not in plugin.name:
            shutil.copy(plugin, base / "plugin")
    for program in source.programs:
        found = next(p for f in ("usr/sbin", "usr/bin") if (p := unpacked / f / program).exists())
        shutil.copy(found.resolve(), base / "bin" / program)
    for program in [*(base / "bin").iterdir(), *(base / "plugin").iterdir()]:
        listed = subprocess.run(
            [own, "--library-path", search, "--list", str(program)],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        for line in listed.splitlines():
            match = re.match(r"\s*(\S+) => (/\S+)", line)
            if match and not (base / "lib" / match[1]).exists():
                shutil.copy(Path(match[2]).resolve(), base / "lib" / match[1])
    for share in ("mariadb", "mysql"):
        if (unpacked / "usr/share" / share / "charsets").is_dir():
            shutil.copytree(unpacked / "usr/share" / share, base / "share", symlinks=False)
            break
    shutil.rmtree(work)
    for folder in ("bin", "lib", "plugin"):
        strip(base / folder)
    return versions
