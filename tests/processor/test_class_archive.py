"""Spark's class archive: which one is taken, and a JVM that it does not fit starts without."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pyspark
import pytest

from processor.settings import ProcessorSettings
from processor.spark import class_archive
from processor.spark.context import configuration

_OPTIONS = "spark.driver.extraJavaOptions"


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the archive of other jars is, in a folder with a blank in its name; not made."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars/one.jar").write_bytes(b"1")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr("sys.prefix", str(tmp_path / "with blank"))
    path = class_archive.path()
    assert path is not None
    path.parent.mkdir(parents=True)
    return path


def test_without_a_home_of_sparks_the_jars_are_those_of_the_package(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(Path(pyspark.__file__).parent))
    named = class_archive.path()
    assert named not in (None, archive)
    monkeypatch.delenv("SPARK_HOME")
    assert class_archive.path() == named


def test_other_jars_have_another_archive(archive: Path, tmp_path: Path) -> None:
    assert class_archive.path() == archive
    os.utime(tmp_path / "jars/one.jar", (1, 1))
    touched = class_archive.path()
    assert touched != archive
    (tmp_path / "jars/two.jar").touch()
    assert class_archive.path() not in (archive, touched)


def test_it_is_used_if_it_is_there_and_the_user_says_nothing_else(archive: Path) -> None:
    assert str(archive) not in configuration(ProcessorSettings())[_OPTIONS]
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive}" in shlex.split(
        configuration(ProcessorSettings())[_OPTIONS]
    )
    chosen = ProcessorSettings(spark_conf={_OPTIONS: "-Xmx1g"})
    assert configuration(chosen)[_OPTIONS] == "-Xmx1g"


def test_without_java_there_is_none(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive.touch()
    monkeypatch.setenv("JAVA_HOME", str(archive.parent))
    assert class_archive.options() == ""


def test_a_jvm_starts_without_an_archive_that_does_not_fit(archive: Path) -> None:
    archive.write_bytes(b"of another JVM" * 1000)
    java = shutil.which("java")
    assert java is not None
    options = shlex.split(class_archive.options())
    done = subprocess.run(
        [java, *options, "-version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == ""
    assert archive.name not in done.stderr
