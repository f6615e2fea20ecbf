"""Traces of OpenTelemetry, exported where that is asked for; else spans cost next to nothing.

By OTLP over HTTP with JSON bodies: the exporter of protobuf and the client of etcd want different
ones. ``OTEL_*`` variables of the environment hold as its specification says, headers (which may be
secrets) among them.

https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from opentelemetry import trace
from pydantic import BaseModel, ConfigDict, Field

import cdc

_TRACES = "/v1/traces"
_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_END_MS = 2_000


class TracingSettings(BaseModel):
    """``endpoint``: a collector's URL, ``http://host:4318``, to whose ``/v1/traces`` traces go.

    ``ca_path`` verifies it instead of the system's authorities; ``sample`` is the share of windows
    that are traced.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint: str = Field(default="", pattern=r"^(https?://[^\s@]+)?$")
    ca_path: Path | None = None
    sample: float = Field(default=1.0, ge=0.0, le=1.0)


def export_traces(settings: TracingSettings, capture: str) -> Callable[[], None]:
    """Export traces of this process, if that is asked for; call what it gives before the end."""
    if not settings.endpoint and not any(os.environ.get(name) for name in _VARIABLES):
        return lambda: None
    from opentelemetry.exporter.otlp.json.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    url = settings.endpoint or None
    if url is not None and urlsplit(url).path in ("", "/"):
        url = url.rstrip("/") + _TRACES
    about = {"service.version": cdc.__version__, "service.instance.id": capture}
    provider = TracerProvider(
        resource=Resource.create({"service.name": "tidegate", **about}),
        sampler=ParentBased(TraceIdRatioBased(settings.sample)),
        shutdown_on_exit=False,
    )
    ca = str(settings.ca_path) if settings.ca_path is not None else None
    exporter = OTLPSpanExporter(endpoint=url, certificate_file=ca)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)

    def end() -> None:
        provider.force_flush(_END_MS)
        provider.shutdown()

    return end
