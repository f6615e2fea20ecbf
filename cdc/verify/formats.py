"""The message formats whose topics can be compared with the upstream: a row each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from cdc.verify.canal import CanalForm
from cdc.verify.debezium import DebeziumForm
from cdc.verify.messages import MessageForm, TopicForm
from sink.codec.protocols import FORMATS, Protocol


def _form(protocol: Protocol, form: MessageForm) -> TopicForm:
    return TopicForm(str(protocol), form, FORMATS[protocol].changes_apart)


TOPIC_FORMS: Final[Mapping[Protocol, TopicForm]] = MappingProxyType(
    {
        Protocol.CANAL_JSON: _form(Protocol.CANAL_JSON, CanalForm()),
        Protocol.DEBEZIUM: _form(Protocol.DEBEZIUM, DebeziumForm()),
    }
)
