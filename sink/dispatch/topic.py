"""Topic expressions: ``[prefix]{schema}[middle]{table}[suffix]``, as TiCDC's."""

from __future__ import annotations

import re

from cdc.base.errors import InvalidError

MAX_TOPIC = 249
_EXPRESSION = re.compile(
    r"[A-Za-z0-9._\-]*(\{schema\})?([A-Za-z0-9._\-]*\{table\})?[A-Za-z0-9._\-]*\Z"
)
_ILLEGAL = re.compile(r"[^A-Za-z0-9._\-]")


class TopicExpressionInvalid(InvalidError):
    """A topic expression, or a topic name made from it, that Kafka cannot take."""

    code = "TG:ErrTopicExpressionInvalid"


def check_expression(text: str) -> str:
    """The expression itself; raises :class:`TopicExpressionInvalid`."""
    if not text or not _EXPRESSION.match(text):
        raise TopicExpressionInvalid(
            f"{text!r} is not a topic expression",
            object="sink.dispatchers.topic",
            hint="write letters, digits, '.', '_', '-', {schema} and after it {table}",
        )
    return text


def topic_name(expression: str, schema: str, table: str) -> str:
    """The topic of a table; what a topic name may not hold becomes ``_``.

    A name over 249 characters is an error: cut names could make two tables share a topic.
    """
    name = expression.replace("{schema}", _ILLEGAL.sub("_", schema))
    name = name.replace("{table}", _ILLEGAL.sub("_", table))
    if name in (".", ".."):
        return "_" * len(name)
    if len(name) > MAX_TOPIC:
        raise TopicExpressionInvalid(
            f"the topic's name would have {len(name)} characters, {MAX_TOPIC} are allowed",
            object=f"{schema}.{table}",
            hint="shorten the topic expression",
        )
    return name
