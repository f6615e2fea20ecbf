"""The wheel: built out of the sources, installed into a clean environment, and run from there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer.main

import cdc
from cdc.base import installed
from cdc.base.installed import InstallationMixed
from cdc.cli.main import app
from tests.api.server_process import CdcServer
from tests.servers.database import Database
from tests.waiting import until

ROOT = Path(__file__).parents[2]
PACKAGES = ("cdc", *installed.PACKAGES)
_SOURCES = (*PACKAGES, "configs", "docs")
_PIP = (sys.executable, "-m", "pip", "-q", "--disable-pip-version-check")


@dataclass
class Installed:
    """An environment that has the wheel, and from ours all that it depends on."""

    wheel: Path
    base: Path

    def run(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """The installed ``cdc``, in a folder that has nothing of ours."""
        kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        return subprocess.run(
            [str(self.base / "bin/cdc"), *words],
            cwd=self.base,
            env=kept | env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built out of a copy: setuptools leaves files beside the sources."""
    folder = tmp_path_factory.mktemp("sources")
    for name in _SOURCES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (*ROOT.glob("*.md"), ROOT / "pyproject.toml"):
        shutil.copy(file, folder)
    how = ("wheel", "--no-deps", "--no-build-isolation", "-w", str(folder / "dist"), str(folder))
    subprocess.run([*_PIP, *how], check=True, timeout=120)
    (found,) = (folder / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def there(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    base = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(base)], check=True)
    python = str(base / "bin/python")
    how = ("--python", python, "install", "--no-deps", "--no-index", str(wheel))
    subprocess.run([*_PIP, *how], check=True, timeout=120)
    # What it depends on is ours; our own editable installation is not, as .pth files of a folder
    # that comes in so are not read.
    (site,) = base.glob("lib/*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Installed(wheel, base)


def test_it_has_all_of_the_sources_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    modules = {str(p.relative_to(ROOT)) for name in PACKAGES for p in (ROOT / name).rglob("*.py")}
    assert {n for n in names if n.endswith(".py")} == modules
    data = {
        str(p.relative_to(ROOT))
        for name in PACKAGES
        for p in (ROOT / name).rglob("*")
        if p.is_file() and p.suffix not in (".py", ".pyc")
    }
    assert len(data) > 20
    assert data <= names
    share = f"tidegate-{cdc.__version__}.data/data/share/tidegate/"
    shared = {n.removeprefix(share) for n in names if n.startswith(share)}
    for pattern in ("docs/**/*.md", "configs/*.toml", "configs/grafana/*.json", "configs/*/*.yml"):
        ours = {str(p.relative_to(ROOT)) for p in ROOT.glob(pattern)}
        assert ours
        assert ours <= shared
    assert {"README.md", "CHANGELOG.md", "configs/tidegate.service"} <= shared


def test_the_command_is_that_of_the_environment(there: Installed) -> None:
    done = there.run("--version")
    assert done.returncode == 0, done.stderr
    assert cdc.__version__ in done.stdout
    code = f"import {', '.join(PACKAGES)}; print([m.__file__ for m in ({', '.join(PACKAGES)})])"
    python = str(there.base / "bin/python")
    found = subprocess.check_output([python, "-c", code], cwd=there.base, text=True)
    assert found.count(str(there.base)) == len(PACKAGES)


def test_a_package_of_another_project_is_named(there: Installed, tmp_path: Path) -> None:
    (tmp_path / "owner").mkdir()
    (tmp_path / "owner/__init__.py").touch()
    done = there.run("--version", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("Error: [TG:ErrInstallationMixed] owner: the package owner is")
    assert str(tmp_path) in done.stderr
    installed.check()
    with pytest.raises(InstallationMixed, match="no package of ours"):
        installed.check(["no_such_package_of_ours"])


@pytest.fixture
def server(there: Installed, tmp_path: Path) -> Iterator[CdcServer]:
    made = CdcServer(tmp_path / "data", module="cdc.cli.entry", python=there.base / "bin/python")
    try:
        yield made.start()
    finally:
        made.end()


@pytest.mark.slow
def test_a_server_of_it_delivers(
    there: Installed, server: CdcServer, mysql: Database, schema_name: str, tmp_path: Path
) -> None:
    mysql.execute(f"CREATE DATABASE {schema_name}", f"CREATE TABLE {schema_name}.t (id INT KEY)")

    def cli(*words: str) -> None:
        done = there.run("cli", *words, "--server", server.url)
        assert done.returncode == 0, done.stderr

    cli("upstream", "create", "-u", "main", "--uri", mysql.uri())
    folder = tmp_path / "out"
    sink = f"file://{folder}?protocol=canal-json"
    config = tmp_path / "feed.toml"
    config.write_text(f'[filter]\nrules = ["{schema_name}.*"]\n')
    cli(
        "changefeed", "create", "-u", "main", "-c", "f", "--sink-uri", sink, "--config", str(config)
    )
    mysql.execute(f"INSERT INTO {schema_name}.t VALUES (4711)")

    def lines() -> str:
        files = [p for p in folder.rglob("*") if p.is_file() and schema_name in str(p)]
        return "".join(p.read_text(errors="replace") for p in files)

    until(lambda: '"id":"4711"' in lines(), "its Spark has delivered a row")
    assert server.send("GET", "/api/v2/docs", "").is_success
    assert server.send("GET", "/", "").is_success


def test_the_unit_starts_it_with_options_that_it_has() -> None:
    text = (ROOT / "configs/tidegate.service").read_text()
    (line,) = re.findall(r"^ExecStart=\S+/bin/cdc server (.*)$", text, re.M)
    command = typer.main.get_command(app).commands["server"]  # type: ignore[attr-defined]
    known = {o for p in command.params for o in p.opts}
    assert set(re.findall(r"--[\w-]+", line)) <= known
