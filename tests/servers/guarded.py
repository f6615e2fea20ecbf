"""A broker that authorises: its one login may do what it was granted, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.servers.broker import SASL_USER, Broker, broker
from tests.waiting import until

_PRINCIPAL = f"User:{SASL_USER}"


class On(Enum):
    """What a right is about."""

    TOPIC = ResourceType.TOPIC
    TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
    CLUSTER = ResourceType.BROKER


@dataclass(frozen=True)
class Right:
    """One operation on what is called ``name``, or begins with it if ``prefix`` is set."""

    on: On
    name: str
    operation: AclOperation
    prefix: bool = False

    @property
    def pattern(self) -> tuple[ResourceType, str, ResourcePatternType]:
        """Return type, name and kind of pattern, as the admin client wants them."""
        kind = ResourcePatternType.PREFIXED if self.prefix else ResourcePatternType.LITERAL
        return self.on.value, self.name, kind


@dataclass(frozen=True)
class Guarded:
    """The broker and the rights of its login; without one, `Broker.internal` may do everything."""

    broker: Broker

    def grant(self, *rights: Right) -> None:
        """Give rights; they are in force on return."""
        bindings = [AclBinding(*r.pattern, *self._entry(r)) for r in rights]
        # The client must outlive its futures.
        admin = self._admin()
        for future in admin.create_acls(bindings).values():
            future.result(60)
        until(lambda: all(_holds(admin, f) for f in self._filters(rights)), "rights are given")

    def revoke(self, *rights: Right) -> None:
        """Take rights back; they are gone on return."""
        admin = self._admin()
        for future in admin.delete_acls(self._filters(rights)).values():
            assert future.result(60), "no such right was given"
        until(lambda: not any(_holds(admin, f) for f in self._filters(rights)), "rights are gone")

    def _filters(self, rights: tuple[Right, ...]) -> list[AclBindingFilter]:
        return [AclBindingFilter(*r.pattern, *self._entry(r)) for r in rights]

    @staticmethod
    def _entry(right: Right) -> tuple[str, str, AclOperation, AclPermissionType]:
        return _PRINCIPAL, "*", right.operation, AclPermissionType.ALLOW

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.broker.internal, "log_level": 2})


def _holds(admin: AdminClient, right: AclBindingFilter) -> bool:
    """Whether the broker goes by a right: its controller knows of it a little earlier."""
    return bool(admin.describe_acls(right).result(60))


@contextmanager
def guarded_broker() -> Iterator[Guarded]:
    """Run a broker with ACLs while the context lasts; nothing is granted at first."""
    options = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # The node itself, and tests on the listener without a login.
        "super.users": "User:ANONYMOUS",
    }
    with broker(options, sasl=True) as running:
        yield Guarded(running)
