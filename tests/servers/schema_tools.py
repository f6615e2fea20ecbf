"""The real tools of online schema change, in the cache: gh-ost and pt-online-schema-change.

gh-ost comes as source from the Go module proxy, pinned by version and by the sum that Go itself
checks, and is built with Debian's Go; Percona's tool is a Perl program of Debian's, and runs with
Debian's own Perl, whatever the machine has.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.servers import cache, debian
from tests.servers.catalogue import DebianPackages
from tests.servers.errors import Unavailable

_GO = DebianPackages("trixie", ("golang-1.24-go", "golang-1.24-src"))
_GH_OST = "github.com/github/gh-ost"
_GH_OST_VERSION = "v1.1.8"
# Of a module that only requires it: ``go install`` would ask for the list of its versions.
_GO_MOD = f"module tool\n\ngo 1.23.0\n\nrequire {_GH_OST} {_GH_OST_VERSION}\n"
_PERCONA = DebianPackages("bookworm", ("percona-toolkit",), pins=(("percona-toolkit", "3.2.1-1"),))
# What stands under the library folders of a Debian that Perl looks for modules in.
_PERL = ("share/perl/5.36.0", "share/perl5")
_PERL_BINARY = ("perl-base", "perl/5.36.0", "perl5/5.36")
_TRIPLET = "x86_64-linux-gnu"


@dataclass(frozen=True)
class Tool:
    """A program: the start of its command line, and what it needs beside our environment."""

    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()

    def run(self, *arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Run it to its end; ``stdout`` has all that it says."""
        return subprocess.run(
            [*self.command, *arguments],
            env={**os.environ, **dict(self.environment)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=timeout_s,
        )

    def start(self, *arguments: str, output: Path) -> subprocess.Popen[str]:
        """Begin it; ``output`` gets all that it says."""
        with output.open("w") as file:
            return subprocess.Popen(
                [*self.command, *arguments],
                env={**os.environ, **dict(self.environment)},
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
            )


def gh_ost() -> Tool:
    """gh-ost 1.1.8. Raises Unavailable."""
    place = cache.root() / "tools" / f"gh-ost-{_GH_OST_VERSION}"
    return Tool((str(cache.entry(place, _build_gh_ost) / "gh-ost"),))


def pt_osc() -> Tool:
    """pt-online-schema-change 3.2.1. Raises Unavailable."""
    base = cache.entry(cache.root() / "tools" / "percona-toolkit-3.2.1", _unpack_percona)
    usr = base / "usr"
    folders = [usr / f for f in _PERL]
    folders += [usr / f"lib/{_TRIPLET}" / f for f in _PERL_BINARY]
    libraries = f"{usr}/lib/{_TRIPLET}:{base}/lib/{_TRIPLET}"
    loader = next(base.rglob("ld-linux-x86-64.so.2")).resolve()
    command = (str(loader), "--library-path", libraries, str(usr / "bin/perl"))
    paths = ":".join(str(folder) for folder in folders)
    environment = {
        "PERL5LIB": paths,
        "MARIADB_PLUGIN_DIR": f"{usr}/lib/{_TRIPLET}/libmariadb3/plugin",
    }
    program = str(usr / "bin/pt-online-schema-change")
    return Tool((*command, program), tuple(environment.items()))


def _build_gh_ost(folder: Path) -> None:
    print("gh-ost: fetching ...", flush=True)
    work = folder / ".work"
    unpacked, _ = debian.download("gh-ost", _GO, work)
    go = unpacked / "usr/lib/go-1.24/bin/go"
    environment = {
        **os.environ,
        "GOROOT": str(go.parent.parent),
        "GOPATH": str(work / "path"),
        "GOCACHE": str(work / "build"),
        "GOFLAGS": "-mod=mod -modcacherw -trimpath -ldflags=-s",
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
    }
    module = work / "module"
    module.mkdir()
    (module / "go.mod").write_text(_GO_MOD)
    done = subprocess.run(
        [str(go), "build", "-o", str(folder / "gh-ost"), f"{_GH_OST}/go/cmd/gh-ost"],
        cwd=module,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Unavailable("gh-ost", f"go build: {done.stderr[-500:]}")
    shutil.rmtree(work)


def _unpack_percona(folder: Path) -> None:
    print("percona-toolkit: fetching ...", flush=True)
    work = folder / ".work"
    unpacked, _ = debian.download("percona-toolkit", _PERCONA, work)
    for part in ("usr", "lib", "lib64"):
        if (unpacked / part).is_dir():
            shutil.move(unpacked / part, folder / part)
    for unused in ("usr/share/doc", "usr/share/man", "usr/share/locale"):
        shutil.rmtree(folder / unused, ignore_errors=True)
    shutil.rmtree(work)


def fetch() -> bool:
    """Put both into the cache; whether they are there."""
    try:
        gh_ost()
        pt_osc()
    except Unavailable as error:
        print(error, file=sys.stderr, flush=True)
        return False
    return True
