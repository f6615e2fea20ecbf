"""What Spark is told: what must be so, what a user may change, who may reach the driver."""

from __future__ import annotations

import shlex
import shutil
import socket
import stat
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from processor.settings import ProcessorSettings
from processor.spark.context import configuration, may_be_forked
from processor.spark.scratch import prepare

_SOCKETS = "spark.python.unix.domain.socket.dir"
_ADDRESSES = ("spark.driver.host", "spark.driver.bindAddress")


@pytest.mark.parametrize("master", ["local[*]", "local[2]"])
def test_a_local_driver_listens_for_itself_only(master: str) -> None:
    found = configuration(ProcessorSettings(spark_master=master))
    assert [found[a] for a in _ADDRESSES] == ["127.0.0.1", "127.0.0.1"]


def test_executors_of_a_cluster_reach_the_driver() -> None:
    found = configuration(ProcessorSettings(spark_master="spark://host:7077"))
    assert not set(_ADDRESSES) & set(found)


def test_a_user_chooses_the_address_but_not_the_attempts() -> None:
    chosen = {"spark.driver.host": "10.0.0.7", "spark.task.maxFailures": "4"}
    settings = ProcessorSettings(spark_master="spark://host:7077", spark_conf=chosen)
    found = configuration(settings)
    assert found["spark.driver.host"] == "10.0.0.7"
    assert found["spark.task.maxFailures"] == "1"


def test_a_task_does_not_wait_for_a_frozen_executor_longer_than_a_job_may_take() -> None:
    found = configuration(ProcessorSettings(spark_master="spark://host:7077"))
    names = ("connectionTimeout", "retryWait", "maxRetries")
    limit, wait, again = (int(found[f"spark.shuffle.io.{n}"].rstrip("s")) for n in names)
    assert limit + again * (wait + limit) <= ProcessorSettings().job_timeout_s / 2


def test_the_jvm_unpacks_libraries_where_they_are_removed(tmp_path: Path) -> None:
    folders = prepare(tmp_path / "a b", "local[2]")
    options = configuration(ProcessorSettings(), folders)["spark.driver.extraJavaOptions"]
    assert f"-Djava.io.tmpdir={folders.temporary}" in shlex.split(options)
    (folders.temporary / "unpacked").touch()
    (folders.temporary / "more").mkdir()
    again = prepare(tmp_path / "a b", "local[2]")
    assert again.temporary == folders.temporary, "a JVM outlives its contexts"
    assert list(again.temporary.iterdir()) == []
    assert not Path(folders.conf["spark.local.dir"]).exists()


@pytest.fixture
def near() -> Iterator[Path]:
    """A folder below which a socket can be."""
    with tempfile.TemporaryDirectory(prefix="tg") as folder:
        yield Path(folder)


@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077"])
@pytest.mark.parametrize("name", ["s", "s" * 60])
def test_sockets_have_a_path_that_a_socket_can_have(near: Path, name: str, master: str) -> None:
    """Of a cluster's driver Spark makes them among the JVM's temporary files."""
    folders = prepare(near / name, master)
    chosen = {} if master.startswith("spark") else {_SOCKETS: str(folders.temporary)}
    assert {k: v for k, v in folders.conf.items() if k == _SOCKETS} == chosen
    options = configuration(ProcessorSettings(spark_master=master), folders)
    assert f"-Djava.io.tmpdir={folders.temporary}" in options["spark.driver.extraJavaOptions"]
    for again in (folders, prepare(near / name, master)):
        assert stat.S_IMODE(again.temporary.stat().st_mode) == 0o700
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(again.temporary / f".{uuid.uuid4()}.sock"))
    assert again.temporary == folders.temporary
    assert (near in again.temporary.parents) == (name == "s")
    if name != "s":
        shutil.rmtree(again.temporary)


def test_a_folder_that_somebody_else_could_have_made_is_not_used_again(near: Path) -> None:
    far = near / ("s" * 60)
    first = prepare(far, "local[2]").temporary
    first.chmod(0o777)
    (first / "kept").touch()
    second = prepare(far, "local[2]").temporary
    assert second != first
    assert (first / "kept").exists()
    for one in (first, second):
        shutil.rmtree(one)


@pytest.mark.parametrize(
    ("master", "python", "forked"),
    [
        ("local[2]", None, True),
        ("local[2]", sys.executable, True),
        ("local[2]", "/opt/python", False),
        ("spark://host:7077", None, False),
    ],
)
def test_a_daemon_is_a_fork_only_where_it_would_run_the_same(
    monkeypatch: pytest.MonkeyPatch, master: str, python: str | None, forked: bool
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if python is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", python)
    assert may_be_forked(ProcessorSettings(spark_master=master)) == forked
