"""What etcd's answers mean for us.

The texts are those of etcd's ``rpctypes``; where a gRPC status alone does not tell, they do.
"""

from __future__ import annotations

from typing import Any

import grpc

from cdc.base.errors import DefiniteError, InvalidError, TidegateError
from cdc.coord.contract import LeaseExpired, StoreFailed, StoreTxnTooLarge, WatchCompacted

_LOGIN = ("invalid auth token", "user name is empty", "revision of auth store is old")


class StoreUncertain(StoreFailed):
    """The store did not answer in time: whether it has made the change is not known."""

    code = "TG:ErrStoreUncertain"


class StoreFull(StoreFailed):
    """etcd has raised its NOSPACE alarm and takes no writes until it is ended."""

    code = "TG:ErrStoreFull"


class StoreRefused(InvalidError):
    """etcd does not let us in, or not where our keys are."""

    code = "TG:ErrStoreRefused"


class LoginExpired(Exception):
    """The token of a login has ended; a new one is needed."""


def details(error: grpc.RpcError) -> str:
    """etcd's own words."""
    return str(getattr(error, "details", lambda: "")() or "")


def meaning(error: grpc.RpcError) -> TidegateError | LoginExpired | None:
    """What to raise; None if the same may succeed with another member, or later."""
    code: Any = getattr(error, "code", lambda: None)()
    text = details(error)
    if any(words in text for words in _LOGIN):
        return LoginExpired()
    if "lease not found" in text:
        return LeaseExpired("the lease is gone", object="lease")
    if "required revision has been compacted" in text:
        return WatchCompacted("these events are not kept any more", object="store")
    if "database space exceeded" in text:
        return StoreFull(
            "etcd has reached its space quota (alarm NOSPACE)",
            object="store",
            hint="compact and defragment it, or raise --quota-backend-bytes; then end the alarm"
            " with `etcdctl alarm disarm`",
        )
    if "request is too large" in text or "too many operations" in text:
        return StoreTxnTooLarge(
            text, object="store", hint="raise etcd's --max-request-bytes and --max-txn-ops"
        )
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in text:
        return StoreTxnTooLarge(text, object="store", hint="raise etcd's --max-request-bytes")
    if "permission denied" in text or "authentication failed" in text:
        return StoreRefused(
            text, object="store", hint="check user, password and role: docs/store.md names keys"
        )
    if "authentication is not enabled" in text:
        return StoreRefused(
            text, object="store", hint="leave the user out, or `etcdctl auth enable`"
        )
    if code is grpc.StatusCode.INVALID_ARGUMENT or code is grpc.StatusCode.UNIMPLEMENTED:
        return DefiniteError(text, object="store", hint="is it etcd 3.4 or newer?")
    return None
