"""Reading little-endian fields of one event, never past its end."""

from __future__ import annotations

from cdc.binlog.errors import EventMalformed


class Cursor:
    """A read position in ``data[at:end]``; ``what`` names the event in errors.

    Offsets in errors count from the start of ``data``. Raises :class:`EventMalformed` where a
    field would reach past ``end``.
    """

    __slots__ = ("at", "data", "end", "what")

    def __init__(self, data: bytes, what: str, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.what = what
        self.at = at
        self.end = len(data) if end is None else end
        if not 0 <= at <= self.end <= len(data):
            raise EventMalformed(f"{what} has no room for its fields", position=f"byte {at}")

    def left(self) -> int:
        """Bytes not yet read."""
        return self.end - self.at

    def take(self, n: int, field: str) -> bytes:
        """The next ``n`` bytes."""
        if n < 0 or n > self.left():
            raise EventMalformed(
                f"{self.what}: {field} needs {n} bytes, {self.left()} are left",
                position=f"byte {self.at} of the event's body",
            )
        start = self.at
        self.at += n
        return bytes(self.data[start : self.at])

    def uint(self, n: int, field: str) -> int:
        """Unsigned integer of ``n`` bytes."""
        return int.from_bytes(self.take(n, field), "little")

    def sint(self, n: int, field: str) -> int:
        """Signed integer of ``n`` bytes."""
        return int.from_bytes(self.take(n, field), "little", signed=True)

    def lenenc(self, field: str) -> int:
        """Length-encoded integer (1, 3, 4 or 9 bytes)."""
        first = self.uint(1, field)
        if first < 251:
            return first
        if first == 252:
            return self.uint(2, field)
        if first == 253:
            return self.uint(3, field)
        if first == 254:
            return self.uint(8, field)
        raise EventMalformed(
            f"{self.what}: {field} has the impossible length prefix {first}",
            position=f"byte {self.at - 1} of the event's body",
        )

    def lenenc_bytes(self, field: str) -> bytes:
        """Bytes after their length-encoded length."""
        return self.take(self.lenenc(field), field)

    def short_bytes(self, field: str) -> bytes:
        """Bytes after a length of one byte."""
        return self.take(self.uint(1, field), field)

    def nul_terminated(self, field: str) -> bytes:
        """Bytes up to the next zero byte, which is consumed."""
        stop = self.data.find(b"\0", self.at, self.end)
        if stop < 0:
            raise EventMalformed(
                f"{self.what}: {field} has no end",
                position=f"byte {self.at} of the event's body",
            )
        value = self.take(stop - self.at, field)
        self.at += 1
        return value

    def rest(self) -> bytes:
        """Everything that is left."""
        return self.take(self.left(), "rest")


def lenenc_int(value: int) -> bytes:
    """``value`` as a length-encoded integer."""
    if value < 251:
        return value.to_bytes(1, "little")
    if value < 1 << 16:
        return b"\xfc" + value.to_bytes(2, "little")
    if value < 1 << 24:
        return b"\xfd" + value.to_bytes(3, "little")
    return b"\xfe" + value.to_bytes(8, "little")
