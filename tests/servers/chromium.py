"""Debian's Chromium without a window, unpacked without root, for Playwright to drive.

It starts itself again for each page, so it cannot go by a loader of its own as other programs of
Debian's do: it runs on this machine's C library, with the suite's other libraries, and with one
family of fonts, so that a picture does not depend on the machine's.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.servers import debian
from tests.servers.catalogue import DebianPackages
from tests.servers.errors import Unavailable
from tests.servers.maven import strip

_PROGRAM = "chromium-headless-shell"
# What is only of use to who debugs the graphics.
_UNUSED = ("libVkLayer*", "*.TOC", "libVkICD_mock*")
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
  <alias><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""


def unpack(name: str, source: DebianPackages, base: Path) -> dict[str, str]:
    """Put the browser into ``base/bin``, its libraries into ``base/lib``, fonts beside them.

    Returns the versions of the packages.
    """
    work = base / ".work"
    unpacked, versions = debian.download(name, source, work)
    browser = base / "bin"
    shutil.copytree(unpacked / "usr/lib/chromium", browser, ignore=shutil.ignore_patterns(*_UNUSED))
    _take_libraries(unpacked, browser / _PROGRAM, base / "lib")
    shutil.copytree(unpacked / "usr/share/fonts/truetype/dejavu", base / "fonts")
    (base / "fonts.conf").write_text(_FONTS)
    shutil.rmtree(work)
    strip(base / "lib")
    return versions


def _take_libraries(unpacked: Path, program: Path, target: Path) -> None:
    """Copy what the program loads, but the C library: that must be the one of the loader."""
    target.mkdir()
    folders = debian.library_folders(unpacked)
    folders.append(folders[0] / "pulseaudio")
    search = ":".join(str(folder) for folder in folders)
    loader = debian.loader(unpacked)
    listed = subprocess.run(
        [str(loader), "--library-path", search, "--list", str(program)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name, path in libraries(listed):
        shutil.copy(path.resolve(), target / name)
    # The library for certificates opens these by itself.
    for path in folders[0].glob("lib[sfn]*3.so"):
        shutil.copy(path, target)


def libraries(listed: str) -> list[tuple[str, Path]]:
    """Names and places of what a loader lists, but the C library.

    A loader lists itself by the whole path that the program has for it, which is the host's own:
    whoever copies to that overwrites it below all that runs. So a path is no library here.
    """
    found = re.findall(r"(\S+) => (/\S+)", listed)
    return [(name, Path(path)) for name, path in found if "/" not in name and not _of_libc(name)]


def _of_libc(name: str) -> bool:
    return re.match(r"(lib(c|m|dl|rt|pthread|resolv)|ld-linux-x86-64)\.so", name) is not None


def command(base: Path) -> str:
    """The path of the browser's program."""
    return str(base / "bin" / _PROGRAM)


def environment(base: Path) -> dict[str, str]:
    """The variables that it must be started with."""
    found = {"LD_LIBRARY_PATH": str(base / "lib"), "FONTCONFIG_FILE": str(base / "fonts.conf")}
    return {**os.environ, **found}


def version(name: str, base: Path) -> str:
    """What it says it is; raises :class:`Unavailable` if it does not run here."""
    done = subprocess.run(
        [command(base), "--version"],
        env=environment(base),
        capture_output=True,
        text=True,
        check=False,
    )
    match = re.search(r"(\d+(\.\d+)+)", done.stdout)
    if match is None:
        raise Unavailable(name, "it does not run here: " + done.stdout + done.stderr)
    return match[1]
