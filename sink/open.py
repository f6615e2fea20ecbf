"""Which sink a URI names, and opening its two sides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sink.codec.settings import CanalSettings
from sink.contract import Deliverer, SinkDriver
from sink.dispatch.rules import Router
from sink.kafka.deliverer import KafkaDeliverer
from sink.kafka.driver import KafkaDriver, router_of
from sink.kafka.settings import KafkaSettings


class OpenSink:
    """The settings of the sink that a URI names, and what can be opened with them.

    Raises an ``InvalidError`` with one hint for a URI or ``sink`` section that cannot be used.
    """

    def __init__(
        self, sink_uri: str, sink_config: Mapping[str, Any], *, case_sensitive: bool = False
    ) -> None:
        self._settings = KafkaSettings.parse(sink_uri, sink_config)
        self._case_sensitive = case_sensitive

    @property
    def routing(self) -> tuple[object, ...]:
        """What decides which destination a row goes to; equal values send it to the same one."""
        settings = self._settings
        return (settings.topic, settings.partition_num, settings.dispatchers, self._case_sensitive)

    def driver(self) -> SinkDriver:
        """The capture's side."""
        return KafkaDriver(self._settings, case_sensitive=self._case_sensitive)

    def deliverer(self, feed: str, epoch: int, slot: int) -> Deliverer:
        """A Spark worker's side; claims the slot."""
        return KafkaDeliverer(self._settings, feed, epoch, slot)

    def router(self, partitions: Mapping[str, int] | None = None) -> Router:
        """Topics and partition rules."""
        return router_of(self._settings, partitions, case_sensitive=self._case_sensitive)

    def codec(self) -> CanalSettings:
        """The options of the message format."""
        settings = self._settings
        return CanalSettings(
            enable_tidb_extension=settings.enable_tidb_extension,
            only_output_updated_columns=settings.only_output_updated_columns,
            delete_only_output_handle_key_columns=settings.delete_only_output_handle_key_columns,
            content_compatible=settings.content_compatible,
        )
