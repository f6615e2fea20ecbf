"""A server that follows another one by GTID."""

from __future__ import annotations

from dataclasses import dataclass

from tests.servers.database import Database


@dataclass(frozen=True)
class Following:
    """A primary, and what is or is going to be its replica."""

    primary: Database
    replica: Database

    @property
    def word(self) -> str:
        """What its family calls a replica in statements."""
        return "SLAVE" if self.primary.kind == "mariadb" else "REPLICA"

    def follow(self) -> None:
        """The replica follows from now on."""
        port = self.primary.port
        if self.primary.kind == "mariadb":
            self.replica.execute(
                f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port},"
                " MASTER_USER='root', MASTER_USE_GTID=slave_pos, MASTER_SSL=0",
                "START SLAVE",
            )
        else:
            self.replica.execute(
                f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port},"
                " SOURCE_USER='root', SOURCE_AUTO_POSITION=1, SOURCE_SSL=0,"
                " GET_SOURCE_PUBLIC_KEY=1",
                "START REPLICA",
            )

    def caught_up(self) -> None:
        """Wait until the replica has what the primary has."""
        if self.primary.kind == "mariadb":
            at = self.primary.execute("SELECT @@gtid_binlog_pos")[0][0]
            wait = f"SELECT MASTER_GTID_WAIT('{at}', 60)"
        else:
            at = self.primary.execute("SELECT @@gtid_executed")[0][0]
            wait = f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{at}', 60)"
        assert self.replica.execute(wait)[0][0] == 0, "the replica does not catch up"

    def part(self) -> None:
        """The replica follows no longer."""
        self.replica.execute(f"STOP {self.word}")

    def go_on(self) -> None:
        """The replica follows again."""
        self.replica.execute(f"START {self.word}")
