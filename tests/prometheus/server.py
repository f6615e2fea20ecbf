"""A throw-away Prometheus that scrapes once a second."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.prometheus.promtool import command
from tests.servers import process

_START_S = 60.0


class Prometheus:
    """One that runs; asked over its API."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expr: str) -> list[dict[str, Any]]:
        """The series of an instant query, each with its labels and value."""
        return self._get("query", {"query": expr})["result"]

    def over(
        self, expr: str, span: tuple[float, float], step_s: float
    ) -> list[tuple[dict[str, str], list[tuple[float, float]]]]:
        """Series over ``span`` (s since the epoch): labels, and samples of (s, value)."""
        begin, end = span
        given = {"query": expr, "start": f"{begin}", "end": f"{end}", "step": f"{step_s}"}
        return [
            (s["metric"], [(float(t), float(v)) for t, v in s["values"]])
            for s in self._get("query_range", given)["result"]
        ]

    def firing(self) -> set[str]:
        """Names of the alerts that fire now."""
        found = self._get("alerts", {})["alerts"]
        return {a["labels"]["alertname"] for a in found if a["state"] == "firing"}

    def _get(self, path: str, parameters: Mapping[str, str]) -> Any:
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=parameters, trust_env=False)
        body = answer.json()
        assert body["status"] == "success", body
        return body["data"]


@contextmanager
def prometheus(targets: Mapping[str, list[str]], rules: Path) -> Iterator[Prometheus]:
    """Run one that scrapes the jobs' targets, with rules of ours, judged each second."""
    folder, ours = process.data_folder(None, "prometheus")
    port = process.free_port()
    scraped = [{"job_name": j, "static_configs": [{"targets": t}]} for j, t in targets.items()]
    pace = {"scrape_interval": "1s", "evaluation_interval": "1s", "scrape_timeout": "1s"}
    given = {"global": pace, "scrape_configs": scraped, "rule_files": [str(rules)]}
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump(given))
    log = folder / "prometheus.log"
    running = process.spawn(
        [
            *command("prometheus"), f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ],
        cwd=folder,
        log=log,
    )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}"
        _await(lambda: httpx.get(f"{url}/-/ready", trust_env=False).is_success, log)
        yield Prometheus(url)
    finally:
        running.kill()
        running.wait()
        if ours:
            shutil.rmtree(folder, ignore_errors=True)


def _await(ready: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        try:
            if ready():
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"Prometheus is not ready: {process.tail(log)}")
