"""``python -m tests.servers start NAME``, as the README uses it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import pytest

from tests.servers import install


@pytest.mark.real
@pytest.mark.parametrize("name", ["mariadb-11.4", "kafka-4.1"])
def test_start_prints_the_address_and_ends_with_ctrl_c(name: str) -> None:
    if not install.is_fetched(name):
        pytest.skip(f"{name} is not fetched")
    command = [sys.executable, "-m", "tests.servers", "start", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        line = started.stdout.readline()
        assert re.match(r"(mysql://root@)?127\.0\.0\.1:\d+  \(pid \d+, Ctrl-C ends it\)\n", line)
        started.send_signal(signal.SIGINT)
        assert started.wait(60) == 0
