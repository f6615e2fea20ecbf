"""Packets cut anywhere, continued packets, and damaged streams."""

from __future__ import annotations

import random
import struct

import numpy as np

from cdc.kernels import stream as S  # noqa: N812


def _event(size: int, fill: int) -> bytes:
    return struct.pack("<IBIIIH", 1, 30, 1, size, 0, 0) + bytes([fill]) * (size - 19)


def _packets(events: list[bytes], first: int = 1) -> bytes:
    out, sequence = bytearray(), first
    for event in events:
        message = b"\0" + event
        while True:
            part, message = message[: (1 << 24) - 1], message[(1 << 24) - 1 :]
            out += len(part).to_bytes(3, "little") + bytes([sequence & 255]) + part
            sequence += 1
            if len(part) < (1 << 24) - 1:
                break
    return bytes(out)


def _state() -> np.ndarray:
    state = np.zeros(S.STATE_SIZE, np.int64)
    state[S.SEQUENCE] = 1
    return state


def test_cuts_at_every_place_give_the_same_events() -> None:
    events = [_event(random.Random(i).randrange(19, 300), i & 255) for i in range(400)]
    data = np.frombuffer(_packets(events), np.uint8)
    for seed in range(30):
        rng = random.Random(seed)
        out, state, at = np.zeros(data.size, np.uint8), _state(), 0
        while at < data.size:
            hi = min(data.size, at + rng.choice([1, 2, 3, 5, 17, 100, 5000]))
            got, code = S.split(data, at, hi, state, out)
            assert (got, code) == (hi, S.DONE)
            at = hi
        assert out[: state[S.WHOLE]].tobytes() == b"".join(events)
        assert state[S.EVENTS] == len(events)


def test_messages_of_several_packets() -> None:
    for size in ((1 << 24) - 3, (1 << 24) - 2, (1 << 24) - 1, (1 << 25) + 7):
        events = [_event(size, 7), _event(30, 8)]
        data = np.frombuffer(_packets(events), np.uint8)
        out, state = np.zeros(data.size, np.uint8), _state()
        assert S.split(data, 0, data.size, state, out) == (data.size, S.DONE)
        assert out[: state[S.WHOLE]].tobytes() == b"".join(events)


def test_full_output_stops_and_goes_on() -> None:
    data = np.frombuffer(_packets([_event(100, 1), _event(100, 2)]), np.uint8)
    out, state = np.zeros(150, np.uint8), _state()
    at, code = S.split(data, 0, data.size, state, out)
    assert code == S.ROOM
    assert state[S.WHOLE] == 100
    assert state[S.FILLED] == 150
    out[:50] = out[100:150].copy()
    state[S.WHOLE], state[S.FILLED] = 0, 50
    assert S.split(data, at, data.size, state, out) == (data.size, S.DONE)
    assert out[:100].tobytes() == _event(100, 2)


def test_damage_is_an_error_and_never_reads_outside() -> None:
    good = _packets([_event(50, i) for i in range(20)])
    for seed in range(2000):
        rng = random.Random(seed)
        raw = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        data = np.frombuffer(bytes(raw), np.uint8)
        out, state = np.zeros(2000, np.uint8), _state()
        at, code = S.split(data, 0, data.size, state, out)
        assert 0 <= at <= data.size
        assert code in range(7)
        assert state[S.WHOLE] <= state[S.FILLED] <= out.size


def test_sequence_and_status() -> None:
    data = np.frombuffer(_packets([_event(50, 1)], first=2), np.uint8)
    assert S.split(data, 0, data.size, _state(), np.zeros(99, np.uint8))[1] == S.BAD_SEQUENCE
    error = b"\xff" + (1236).to_bytes(2, "little") + b"#HY000gone"
    packet = np.frombuffer(len(error).to_bytes(3, "little") + b"\1" + error, np.uint8)
    out, state = np.zeros(99, np.uint8), _state()
    assert S.split(packet, 0, packet.size, state, out)[1] == S.SERVER_ERROR
    assert out[: state[S.FILLED]].tobytes() == error[1:]
