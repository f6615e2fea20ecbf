"""One server for the tests that do not end it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api.server_process import CdcServer, spark_at_once
from tests.api.trace_collector import TraceCollector


@pytest.fixture(scope="session")
def collector() -> Iterator[TraceCollector]:
    """What the server's traces go to."""
    with TraceCollector() as made:
        yield made


@pytest.fixture(scope="session")
def server(
    tmp_path_factory: pytest.TempPathFactory, collector: TraceCollector
) -> Iterator[CdcServer]:
    """A running server with an empty store, and with Spark."""
    folder = tmp_path_factory.mktemp("server")
    made = CdcServer(folder / "data", *spark_at_once(folder))
    made.environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer planted",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }
    try:
        yield made.start()
    finally:
        made.end()
