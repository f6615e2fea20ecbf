"""All that is wrong with a request, in one error: a value that gathers what checks raise.

Checks raise the first thing that they find. Whoever asks several that do not need each other asks
each through :class:`Refusals`, and raises behind them. :class:`ServerRefused` is what came of it at
another server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from cdc.base.errors import DefiniteError, InvalidError

# What is the same however often it is asked: of the request, or of the tables that it is about.
Refusal = InvalidError | DefiniteError

Given = TypeVar("Given")
Read = TypeVar("Read")


class SeveralReasons(InvalidError):
    """Several things are wrong, each with a code, an object and a hint of its own."""

    code = "TG:ErrSeveralReasons"

    reasons: tuple[Refusal, ...] = ()

    @classmethod
    def of(cls, reasons: Sequence[Refusal]) -> SeveralReasons:
        """The error of two reasons or more."""
        each = "; ".join(
            f"[{r.code}] {f'{r.object}: ' if r.object else ''}{r.message}" for r in reasons
        )
        error = cls(f"{len(reasons)} reasons: {each}", hint="mend each of them")
        error.reasons = tuple(reasons)
        return error

    def __reduce__(self) -> tuple[Any, ...]:
        return (SeveralReasons.of, (self.reasons,))


class ServerRefused(Exception):
    """The server's own error, as it came. ``kind`` as of our errors; ``transient``: ask again.

    ``reasons``: where several things are wrong with a request (``TG:ErrSeveralReasons``), each.
    """

    def __init__(
        self,
        code: str,
        message: str,
        hint: str,
        object: str = "",
        kind: str = "invalid",
        reasons: Sequence[ServerRefused] = (),
    ) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)
        self.kind = kind
        self.code = code
        self.message = message
        self.hint = hint
        self.object = object


def reasons_of(error: Refusal) -> tuple[Refusal, ...]:
    """What an error is made of: itself, where it is but one."""
    return error.reasons if isinstance(error, SeveralReasons) else (error,)


class Refusals:
    """What was refused so far, in the order of the checks."""

    def __init__(self) -> None:
        self._reasons: dict[tuple[str, str, str], Refusal] = {}

    def __bool__(self) -> bool:
        return bool(self._reasons)

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Take what the block refuses; errors that the user cannot mend go through.

        The same reason may come from two checks, and counts once.
        """
        try:
            yield
        except (InvalidError, DefiniteError) as e:
            for reason in reasons_of(e):
                self._reasons.setdefault((reason.code, reason.object, reason.message), reason)

    def check(self) -> None:
        """Raise the reason if there is one, SeveralReasons if there are more."""
        reasons = tuple(self._reasons.values())
        if len(reasons) == 1:
            raise reasons[0]
        if reasons:
            raise SeveralReasons.of(reasons)


def read_each(given: Iterable[Given], read: Callable[[int, Given], Read]) -> tuple[Read, ...]:
    """What ``read`` makes of each, by its place. Raises all that it refuses, behind the last."""
    refusals, made = Refusals(), list[Read]()
    for place, one in enumerate(given):
        with refusals.gathered():
            made.append(read(place, one))
    refusals.check()
    return tuple(made)
