"""Secrets that a soak plants in its URIs, and the look for them at its end."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tests.e2e.capture_process import CaptureProcess
from tests.e2e.seen_outside import answers, process_list, spark_pages
from tests.servers import Database
from tests.soak.plan import Fault, Kind

_USER = "planted"


def plant(server: Database, secret: str) -> str:
    """Make an account that may do everything; the URI that has its password.

    The statement lies in the server's binlog, so a capture reads the password there, too.
    """
    server.execute(
        f"CREATE USER {_USER}@'%' IDENTIFIED BY '{secret}'", f"GRANT ALL ON *.* TO {_USER}@'%'"
    )
    return server.uri(_USER, secret)


def seen(capture: CaptureProcess) -> dict[str, str]:
    """All that those see who have no right to a secret, by where."""
    return {
        "a log": capture.text(),
        "an answer of the API": "".join(answers(capture)),
        "a page of Spark": "".join(spark_pages(capture.ui_port)),
        "the process list": "".join(process_list()),
    }


def shown(capture: CaptureProcess, secrets: Collection[str]) -> Iterator[Fault]:
    """Where a running capture shows one of ``secrets``, or where nothing could be looked at."""
    for where, text in seen(capture).items():
        if not text:
            yield Fault(Kind.LACKING, f"{where}: nothing to look at")
        if any(secret in text for secret in secrets):
            yield Fault(Kind.SHOWN, f"a planted secret, in {where}")
