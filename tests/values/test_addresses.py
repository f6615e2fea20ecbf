"""MariaDB's addresses and the vectors of both servers."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from cdc.kernels.values.addresses import inet4, inet6, uuid
from cdc.kernels.values.errors import LENGTH
from cdc.kernels.values.vectors import vector
from tests.values.images import images
from tests.values.kernel import Refused, text


def addresses() -> list[bytes]:
    rng = random.Random(6)
    pieces = [b"\0\0", b"\0\0", b"\0\1", b"\xff\xff", b"\x12\x34"]
    found = [b"".join(rng.choices(pieces, k=8)) for _ in range(60)]
    return [*found, b"\0" * 16, b"\0" * 15 + b"\1", b"\0" * 12 + b"\1\2\3\4", b"\xff" * 16]


@pytest.mark.parametrize(
    ("column", "kernel", "size"), [("uuid", uuid, 16), ("inet4", inet4, 4), ("inet6", inet6, 16)]
)
def test_addresses_as_the_server_prints_them(mariadb, column, kernel, size) -> None:  # type: ignore[no-untyped-def]
    data = [a[:size] for a in addresses()]
    data += [bytes.fromhex("123e4567e89b12d3a456426655440000")[:size]]
    values = [f"cast(x'{d.hex()}' as {column})" for d in data]
    for _, _, image, shown in images(mariadb.connect, column, values, show="cast(v as char)"):
        assert image[0] == len(image) - 1
        assert text(kernel, image[1:], len(image) - 1) == shown


def test_address_that_is_too_long() -> None:
    for kernel, size in ((uuid, 16), (inet4, 4), (inet6, 16)):
        with pytest.raises(Refused, match=str(LENGTH)):
            text(kernel, b"\1" * (size + 1), size + 1)


def test_vector_reads_back_the_same_on_the_server(database) -> None:  # type: ignore[no-untyped-def]
    numbers = [1, 2.5, -1e20, 0.1, 123456.78, 1e-7, 16777216, 3.4028235e38, 1.2e-38, -0.0]
    data = struct.pack(f"<{len(numbers)}f", *numbers)
    shown = text(vector, data, len(data))
    assert shown.startswith("[1,2.5,-1e20,0.1,123456.78,")
    server = database("mysql-9.7")
    assert server.execute(f"select hex(string_to_vector('{shown}'))")[0][0] == data.hex().upper()


def test_vector_is_exact() -> None:
    bits = np.random.default_rng(4).integers(0, 1 << 32, 4000, dtype=np.uint64).astype(np.uint32)
    values = bits.view(np.float32)
    values = values[np.isfinite(values)]
    shown = text(vector, values.tobytes(), 4 * len(values))
    assert shown[0] + shown[-1] == "[]"
    back = np.array([float(t) for t in shown[1:-1].split(",")]).astype(np.float32)
    assert back.tobytes() == values.tobytes()
