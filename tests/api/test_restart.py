"""kill -9 of a capture with a changefeed: it goes on by itself."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests import servers
from tests.api.server_process import CdcServer
from tests.waiting import PATIENCE


def test_a_changefeed_goes_on_after_kill_9(
    tmp_path: Path, mariadb: servers.Database, broker: servers.Broker
) -> None:
    mariadb.execute("CREATE DATABASE again")
    mariadb.execute("CREATE TABLE again.a (id INT PRIMARY KEY)")
    server = CdcServer(tmp_path / "data")
    try:
        server.start()
        uri = f"mysql://root@127.0.0.1:{mariadb.port}"
        server.cli_json("upstream", "create", "-u", "main", "--uri", uri)
        sink = f"kafka://{broker.bootstrap}/again?protocol=canal-json"
        config = tmp_path / "changefeed.toml"
        config.write_text("[filter]\nrules = ['again.*']\n")
        words = ("-c", "f", "-u", "main", "--sink-uri", sink, "--config", str(config))
        server.cli_json("changefeed", "create", *words)
        assert server.process is not None
        before = server.cli_json("changefeed", "query", "-c", "f")
        os.kill(server.process.pid, signal.SIGKILL)
        server.end()
        server.start()
        deadline = time.monotonic() + 30 * PATIENCE
        while True:
            after = server.cli_json("changefeed", "query", "-c", "f")
            assert after["checkpoint_ts"] >= before["checkpoint_ts"]
            if after["checkpoint_ts"] > before["checkpoint_ts"]:
                break
            assert time.monotonic() < deadline, after
            time.sleep(0.2)
        assert after["epoch"] > before["epoch"]
        assert after["state"] == "normal"
        assert server.stop() == 0
    finally:
        server.end()
