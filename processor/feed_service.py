"""What a changefeed's sink offers beside delivery, from the first recovery to the end."""

from __future__ import annotations

import threading

from sink.contract import Service, Sink


class FeedService:
    """At most one service of a sink. Nothing begins behind the end, whoever is late."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._service: Service | None = None
        self._ended = False

    def begin(self, sink: Sink) -> None:
        """Begin, unless it has begun or ended. Raises what the sink raises."""
        with self._lock:
            if self._service is None and not self._ended:
                self._service = sink.serve()

    def end(self) -> None:
        """End, for good."""
        with self._lock:
            self._ended = True
            service, self._service = self._service, None
        if service is not None:
            service.close()
