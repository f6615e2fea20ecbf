"""The server process: its API without any changefeed, its flags, its end."""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

import cdc
from cdc.client import Access, AnswerLate, Client, connection
from cdc.server import open_files
from processor.spark import class_archive
from tests.api.server_process import CdcServer, run_cdc, spark_at_once


def test_status_health_captures_tso(server: CdcServer) -> None:
    assert server.process is not None
    status = server.api("GET", "/status").json()
    assert status["version"] == cdc.__version__
    assert status["pid"] == server.process.pid
    assert status["is_owner"] is True
    assert status["liveness"] == 0
    assert server.api("GET", "/health").json() == {}
    captures = server.api("GET", "/captures").json()
    assert captures["total"] == 1
    (capture,) = captures["items"]
    assert capture["id"] == status["id"]
    assert capture["is_owner"] is True
    assert server.url.endswith(capture["address"])
    tso = server.api("POST", "/tso").json()
    assert abs(tso["timestamp"] / 1000 - time.time()) < 5
    assert tso["tso"] == tso["timestamp"] << 18


@pytest.mark.parametrize(("given", "kept"), [("", False), ("deploy-7.b_1", True), ("a b", False)])
def test_every_answer_has_the_id_of_its_request(server: CdcServer, given: str, kept: bool) -> None:
    headers = {"X-Request-Id": given} if given else {}
    for token in (None, "wrong"):
        answer = server.send("GET", "/api/v2/status", token, headers=headers)
        assert re.fullmatch(r"[0-9A-Za-z._-]{1,64}", answer.headers["x-request-id"])
        assert (answer.headers["x-request-id"] == given) == kept


def test_empty_lists(server: CdcServer) -> None:
    assert server.api("GET", "/changefeeds?state=finished").json() == {"total": 0, "items": []}
    assert server.cli_json("capture", "list")[0]["cluster_id"] == "default"


def test_metrics_are_prometheus_text(server: CdcServer) -> None:
    text = httpx.get(f"{server.url}/metrics", trust_env=False).text
    families = {f.name for f in text_string_to_metric_families(text)}
    assert {"tidegate_capture_is_owner", "process_cpu_seconds"} <= families


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/changefeeds/nobody", None, 404, "TG:ErrChangeFeedNotExists"),
        ("GET", "/changefeeds/nobody/status", None, 404, "TG:ErrChangeFeedNotExists"),
        ("POST", "/changefeeds/nobody/pause", None, 404, "TG:ErrChangeFeedNotExists"),
        ("POST", "/changefeeds/nobody/resume", None, 404, "TG:ErrChangeFeedNotExists"),
        ("PUT", "/changefeeds/nobody", {}, 404, "TG:ErrChangeFeedNotExists"),
        ("GET", "/upstreams/nobody", None, 404, "TG:ErrUpstreamNotFound"),
        ("DELETE", "/upstreams/nobody", None, 404, "TG:ErrUpstreamNotFound"),
        ("GET", "/changefeeds?state=odd", None, 400, "TG:ErrAPIInvalidParam"),
        ("GET", "/nowhere", None, 404, "TG:ErrAPINotFound"),
        ("PATCH", "/changefeeds", None, 405, "TG:ErrAPINotFound"),
        ("POST", "/changefeeds", {"nonsense": 1, "upstream": "u"}, 400, "TG:ErrAPIInvalidParam"),
        ("POST", "/changefeeds", {"upstream": "u", "start_ts": "x"}, 400, "TG:ErrAPIInvalidParam"),
        (
            "POST",
            "/changefeeds",
            {"upstream": "u", "sink_uri": "blackhole://"},
            404,
            "TG:ErrUpstreamNotFound",
        ),
        (
            "POST",
            "/changefeeds",
            {"upstream": "u", "changefeed_id": "a--b"},
            400,
            "TG:ErrInvalidChangefeedID",
        ),
        (
            "POST",
            "/changefeeds",
            {"upstream": "u", "changefeed_id": "owner"},
            400,
            "TG:ErrInvalidChangefeedID",
        ),
        (
            "POST",
            "/upstreams",
            {"name": "../up", "uri": "mysql://a:b@h:1"},
            400,
            "TG:ErrUpstreamNameInvalid",
        ),
        ("POST", "/log", {"log_level": "loud"}, 400, "TG:ErrAPIInvalidParam"),
        ("POST", "/log", {"log_level": "info", "logger": "me"}, 400, "TG:ErrLoggerUnknown"),
    ],
)
def test_errors(
    server: CdcServer, method: str, path: str, body: object, status: int, code: str
) -> None:
    answer = server.api(method, path, body)
    body = answer.json()
    reasons = [reason["error_code"] for reason in body.get("reasons", ())]
    assert (body["error_code"] == "TG:ErrSeveralReasons") == bool(reasons)
    assert (answer.status_code, [*reasons, body["error_code"]][0]) == (status, code)
    assert body["error_msg"]
    assert answer.json()["kind"] == "invalid"


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PATCH", "/changefeeds", "GET, POST"),
        ("POST", "/changefeeds/f", "DELETE, GET, PUT"),
        ("GET", "/changefeeds/f/pause", "POST"),
        ("DELETE", "/status", "GET"),
        ("GET", "/tso", "POST"),
    ],
)
def test_a_method_that_a_path_has_not_is_answered_with_those_it_has(
    server: CdcServer, method: str, path: str, allow: str
) -> None:
    answer = server.api(method, path)
    assert (answer.status_code, answer.headers["Allow"]) == (405, allow)


@pytest.mark.parametrize("value", [False, True, "1", 1.0, -1, [1]])
@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("POST", "/changefeeds", "start_ts"),
        ("POST", "/changefeeds", "target_ts"),
        ("PUT", "/changefeeds/nobody", "target_ts"),
        ("POST", "/changefeeds/nobody/resume", "overwrite_checkpoint_ts"),
    ],
)
def test_only_a_whole_number_is_a_ts(
    server: CdcServer, method: str, path: str, name: str, value: object
) -> None:
    body = {name: value} | ({"upstream": "u"} if path == "/changefeeds" else {})
    answer = server.api(method, path, body)
    assert (answer.status_code, answer.json()["error_code"]) == (400, "TG:ErrAPIInvalidParam")
    assert name in answer.json()["error_msg"]


def test_removing_is_idempotent(server: CdcServer) -> None:
    assert server.api("DELETE", "/changefeeds/nobody").status_code == 200


def test_a_request_that_is_not_json(server: CdcServer) -> None:
    answer = server.send(
        "POST",
        "/api/v2/changefeeds",
        content=b"{",
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 400
    assert answer.json()["error_code"] == "TG:ErrAPIInvalidParam"


def test_the_command_line_prints_one_line_for_a_mistake(server: CdcServer) -> None:
    done = server.cli("changefeed", "query", "-c", "nobody")
    assert done.returncode == 1
    assert done.stdout == ""
    assert re.fullmatch(r"Error: \[TG:ErrChangeFeedNotExists\] .*; hint: .*\n", done.stderr)


def test_the_data_is_private(server: CdcServer) -> None:
    for file in (server.data_dir / "store").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(server.data_dir.stat().st_mode) == 0o700


def test_many_files_may_be_open_where_a_login_shell_allows_few(server: CdcServer) -> None:
    capture = psutil.Process(server.process.pid)
    hard = capture.rlimit(psutil.RLIMIT_NOFILE)[1]
    most = open_files.ENOUGH if hard == resource.RLIM_INFINITY else min(open_files.ENOUGH, hard)
    assert most > 1024, "nothing is shown where the hard limit is that of the soft one"
    for process in (capture, *capture.children(recursive=True)):
        assert process.rlimit(psutil.RLIMIT_NOFILE)[0] >= most, process.cmdline()


def test_spark_starts_from_its_kept_classes(server: CdcServer) -> None:
    assert server.process is not None
    family = psutil.Process(server.process.pid).children(recursive=True)
    (jvm,) = [process for process in family if process.name() == "java"]
    mapped = {Path(m.path) for m in jvm.memory_maps()}
    assert class_archive.path() in mapped


def test_nothing_listens_beyond_this_machine(server: CdcServer) -> None:
    assert server.process is not None
    capture = psutil.Process(server.process.pid)
    listening = {
        (process.name(), connection.laddr.ip.removeprefix("::ffff:"))
        for process in (capture, *capture.children(recursive=True))
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert "java" in {name for name, _ in listening}
    assert {address for _, address in listening} == {"127.0.0.1"}, listening


def test_a_second_server_on_the_same_data_is_refused(server: CdcServer) -> None:
    assert server.process is not None
    done = run_cdc("server", "--data-dir", str(server.data_dir), "--addr", "127.0.0.1:0")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: [TG:ErrDataDirInUse]")
    assert str(server.process.pid) in done.stderr
    assert "Traceback" not in done.stderr


def test_an_address_in_use_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        addr = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run_cdc("server", "--data-dir", str(tmp_path / "d"), "--addr", addr)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: [TG:ErrAddressInUse]")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("adr = 'x'", "adr: is not a setting"),
        ("addr = 'nonsense'", "addr: 'nonsense' is not host:port"),
        ("[changelog]\nsegment-bytes = 'many'", "changelog.segment-bytes"),
        ("[processor]\nwindow-byte = 1", "processor.window-byte: is not a setting"),
        ("addr = ", "is not TOML"),
    ],
)
def test_a_wrong_settings_file_is_refused_by_name(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "server.toml"
    file.write_text(text)
    done = run_cdc("server", "--data-dir", str(tmp_path / "d"), "--config", str(file))
    assert done.returncode == 1
    assert done.stderr.startswith("Error: [TG:ErrServerConfigInvalid]")
    assert named in done.stderr
    assert not (tmp_path / "d").exists()


def test_no_data_dir_is_refused() -> None:
    done = run_cdc("server")
    assert done.returncode == 1
    assert "give --data-dir" in done.stderr


def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        done = run_cdc("cli", "changefeed", "list", "--server", url)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: [TG:ErrServerUnreachable]")


def test_an_answer_that_does_not_come_is_no_server_that_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "_ASK_S", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        asked = Client(Access(f"http://127.0.0.1:{silent.getsockname()[1]}"))
        with pytest.raises(AnswerLate, match="goes on with it"):
            asked.get("/changefeeds")


def test_version() -> None:
    assert cdc.__version__ in run_cdc("version").stdout


def test_kill_9_then_term_then_interrupt(tmp_path: Path) -> None:
    server = CdcServer(tmp_path / "data", *spark_at_once(tmp_path))
    try:
        server.start(ready=False)
        first = server.api("GET", "/status").json()["id"]
        os.kill(server.process.pid, signal.SIGKILL)  # type: ignore[union-attr]
        server.end()
        server.start()
        assert server.api("GET", "/status").json()["id"] != first
        assert len(server.cli_json("capture", "list")) == 1
        assert server.stop(signal.SIGTERM) == 0
        server.start(ready=False)
        # Spark is still starting now.
        assert server.stop(signal.SIGINT) == 0
        assert "Traceback" not in server.log.read_text()
    finally:
        server.end()


def test_a_stop_that_comes_before_anybody_listens_is_not_lost(tmp_path: Path) -> None:
    """A process that begins anew holds signals back until it can deal with them."""

    def hold_back() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))

    command = [sys.executable, "-m", "cdc.cli.entry", "server", "--spark-master", "local[1]"]
    command += ["--data-dir", str(tmp_path / "data"), "--addr", "127.0.0.1:0"]
    with (tmp_path / "log").open("wb") as log:
        started = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=hold_back)
    try:
        started.send_signal(signal.SIGTERM)
        assert started.wait(60) == 0
    finally:
        started.kill()
        started.wait()
