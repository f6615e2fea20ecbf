"""``schema.table`` as people write it."""

from __future__ import annotations

import re

from cdc.base.errors import InvalidError

_NAME = re.compile(r"(?:`((?:[^`]|``)+)`|([^.`]+))\.(?:`((?:[^`]|``)+)`|([^`]+))\Z")


class NameInvalid(InvalidError):
    """A text that is not ``schema.table``."""

    code = "TG:ErrTableNameInvalid"


def table_name(text: str) -> tuple[str, str]:
    """(schema, table) of ``shop.orders`` or of names in backticks. Raises :class:`NameInvalid`."""
    found = _NAME.match(text)
    if found is None:
        raise NameInvalid(
            f"{text!r} is not schema.table", hint="for example shop.orders, or `my.shop`.orders"
        )
    quoted_schema, schema, quoted_table, table = found.groups()
    return _plain(quoted_schema, schema), _plain(quoted_table, table)


def _plain(quoted: str | None, plain: str | None) -> str:
    return quoted.replace("``", "`") if quoted else plain or ""
