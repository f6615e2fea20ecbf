"""What those see of a capture who have no right to its secrets."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import psutil

from cdc.api.roles import ROUTES
from tests.e2e.capture_process import CaptureProcess
from tests.waiting import PATIENCE

_UNNAMED = ("{name}", "{feed}")


def answers(capture: CaptureProcess) -> Iterator[str]:
    """Every answer to a reader: about all upstreams and changefeeds, metrics, refusals."""
    names = [one["name"] for one in capture.ask("GET", "/upstreams")["items"]]
    feeds = [one["id"] for one in capture.ask("GET", "/changefeeds")["items"]]
    headers = {"Authorization": f"Bearer {(capture.data_dir / 'token').read_text().strip()}"}
    with httpx.Client(trust_env=False, timeout=60, headers=headers) as http:
        for method, path in ROUTES:
            if method != "GET" or path.startswith("/console"):
                continue
            for name in names if "/upstreams/" in path else feeds:
                filled = path.replace("{name}", name).replace("{feed}", name)
                yield http.get(f"{capture.url}{filled}").text
                if filled == path:
                    break


def spark_pages(port: int) -> Iterator[str]:
    """All pages of Spark's that one leads to, and its answers to programs."""
    with httpx.Client(trust_env=False, timeout=20 * PATIENCE) as http:
        base = f"http://127.0.0.1:{port}"
        (app,) = http.get(f"{base}/api/v1/applications").json()
        api = f"{base}/api/v1/applications/{app['id']}"
        pages = [f"{base}/{page}/" for page in ("jobs", "stages", "storage", "environment")]
        pages += [f"{base}/executors/", f"{base}/executors/threadDump/?executorId=driver"]
        pages += [f"{api}/{what}" for what in ("jobs", "stages", "environment", "allexecutors")]
        for page in pages:
            answer = http.get(page)
            assert answer.status_code in (200, 404), page
            yield answer.text
        for stage in http.get(f"{api}/stages").json()[:5]:
            yield http.get(f"{base}/stages/stage/?id={stage['stageId']}&attempt=0").text
            yield http.get(f"{api}/stages/{stage['stageId']}").text


def process_list() -> Iterator[str]:
    """Command lines, and what other users of root's rank see besides: environments."""
    for one in psutil.process_iter():
        try:
            yield " ".join(one.cmdline()) + " ".join(f"{k}={v}" for k, v in one.environ().items())
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
