"""One value of a row image as Maxwell's JSON: numbers, texts, base64, arrays, documents.

Types and their forms: https://maxwells-daemon.io/dataformat/
"""

from __future__ import annotations

import numpy as np

from cdc.kernels import cell
from cdc.kernels import json_layout as J  # noqa: N812
from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels import maxwell_layout as X  # noqa: N812
from cdc.kernels.compile import rare
from cdc.kernels.digits import put_signed
from cdc.kernels.json_values import put_base64, put_double, put_enum, put_float, put_padded
from cdc.kernels.memory import copy_padded, load8, store8
from cdc.kernels.unescape import unescape
from cdc.kernels.values.errors import LENGTH
from cdc.kernels.values.mysql_json import mysql_json

_QUOTE, _COMMA, _OPEN, _CLOSE = 34, 44, 91, 93


@rare
def _set(buf, p, n, first, count, members, blob, out, o):  # type: ignore[no-untyped-def]
    if n > 8:
        return p, LENGTH
    bits = cell.little_endian(buf, p, n)
    store8(out, o, _OPEN)
    o += 1
    begin = o
    for i in range(n * 8):
        if bits >> np.uint64(i) & np.uint64(1) == np.uint64(0):
            continue
        if i >= count:
            return p, LENGTH
        if o > begin:
            store8(out, o, _COMMA)
            o += 1
        store8(out, o, _QUOTE)
        m = first + i
        o = copy_padded(blob, members[m, J.M_TEXT], out, o + 1, members[m, J.M_LENGTH])
        store8(out, o, _QUOTE)
        o += 1
    store8(out, o, _CLOSE)
    return o + 1, 0


@rare
def _rare(buf, p, n, c, columns, forms, members, blob, out, o):  # type: ignore[no-untyped-def]
    form = forms[c, X.N_FORM]
    first, count = forms[c, X.N_MEMBER], forms[c, X.N_MEMBERS]
    if form == X.FORM_DOUBLE:
        return put_double(buf, p, out, o)
    if form == X.FORM_FLOAT:
        return put_float(buf, p, out, o)
    if form == X.FORM_YEAR:
        year = load8(buf, p)
        return put_signed(year + 1900 if year > 0 else np.int64(0), out, o), 0
    if form == X.FORM_BYTES:
        return put_base64(buf, p, n, out, o), 0
    if form == X.FORM_PADDED:
        return put_padded(buf, p, n, columns[c, L.C_A], out, o), 0
    if form == X.FORM_ENUM:
        return put_enum(buf, p, n, first, count, members, blob, out, o)
    if form == X.FORM_SET:
        return _set(buf, p, n, first, count, members, blob, out, o)
    if form == X.FORM_JSON:
        end, error = mysql_json(buf, p, n, out, o)
        if error != 0:
            return end, error
        return unescape(out, o, end, out, o), 0
    return p, LENGTH


@rare
def put_value(  # type: ignore[no-untyped-def]
    buf, p, n, c, columns, forms, members, blob, starts, offsets, texts, out, o
):
    """The value ``buf[p:p+n]`` of column row ``c``: ``(new o, 0)`` or ``(offset, code)``.

    ``starts`` and ``offsets`` are the time zone (``values.zones``), ``texts`` the tables of
    ``charsets``.
    """
    form = forms[c, X.N_FORM]
    if form >= X.FORM_RARE:
        return _rare(buf, p, n, c, columns, forms, members, blob, out, o)
    if form == X.FORM_TEXT:
        store8(out, o, _QUOTE)
        o += 1
    o, error = cell.put_value(buf, p, n, c, columns, starts, offsets, texts, out, o)
    if error == 0 and form == X.FORM_TEXT:
        store8(out, o, _QUOTE)
        o += 1
    return o, error
