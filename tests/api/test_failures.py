"""Wrong tokens are limited by address; right ones are let in whatever others do."""

from __future__ import annotations

import asyncio

import httpx

from cdc.api import errors
from cdc.api.failures import FAILURES, WINDOW_S, Failures
from cdc.api.guard import Guard, GuardMiddleware
from cdc.server.api_tokens import ApiRole, Caller

RIGHT = "t" * 43


class SetClock:
    """A clock that stands until it is moved."""

    s = 1000.0

    def now_ms(self) -> int:
        return int(self.s * 1000)

    def monotonic(self) -> float:
        return self.s


def test_a_window_slides_and_what_comes_while_over_does_not_make_it_longer() -> None:
    clock = SetClock()
    failures = Failures(clock)
    for _ in range(FAILURES):
        assert failures.failed("10.0.0.7") == 0
        clock.s += 1
    left_s = WINDOW_S - FAILURES
    assert failures.failed("10.0.0.7") == left_s
    clock.s += left_s - 0.5
    assert failures.failed("10.0.0.7") == 0.5
    assert failures.failed("10.0.0.8") == 0
    clock.s += 0.5
    assert failures.failed("10.0.0.7") == 0
    assert failures.failed("10.0.0.7") == 1


def test_addresses_of_one_host_are_one_peer_and_memory_is_bounded() -> None:
    failures = Failures(SetClock())
    for n in range(FAILURES):
        assert failures.failed(f"2001:db8::{n:x}") == 0
    assert failures.failed("2001:db8::ffff") > 0
    assert failures.failed("2001:db8:0:1::1") == 0
    for n in range(5000):
        failures.failed(f"10.0.{n >> 8}.{n & 255}")
    assert len(failures) == 1024


async def _ok(scope: object, receive: object, send: object) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
    await send({"type": "http.response.body", "body": b"{}"})  # type: ignore[operator]


def test_only_wrong_tokens_of_that_address_are_refused() -> None:
    clock = SetClock()
    guard = Guard.of(RIGHT, ["127.0.0.1"])
    made = Caller("ann", ApiRole.VIEWER)
    app = GuardMiddleware(
        _ok,
        guard,
        lambda token: made if token == "ann" else None,
        Failures(clock),
        errors.answer,
        forbidden=lambda *_: None,
    )

    async def ask(token: str | None, peer: str = "10.0.0.7") -> httpx.Response:
        transport = httpx.ASGITransport(app, client=(peer, 1))
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get("/api/v2/status", headers=headers)

    async def run() -> None:
        for _ in range(2 * FAILURES):
            assert (await ask(None)).status_code == 401
        for _ in range(FAILURES):
            assert (await ask("wrong")).status_code == 401
        answer = await ask("wrong")
        assert answer.status_code == 429
        assert answer.headers["Retry-After"] == f"{WINDOW_S:.0f}"
        assert answer.json()["error_code"] == "TG:ErrAPITooManyFailures"
        assert (await ask("wrong", "10.0.0.8")).status_code == 401
        for right in (RIGHT, "ann"):
            assert (await ask(right)).status_code == 200
        clock.s += WINDOW_S
        assert (await ask("wrong")).status_code == 401

    asyncio.run(run())
