"""Throw-away etcd: one member, or three that elect a leader."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import grpc
from etcd3 import etcdrpc

from tests.servers import install, process, tls
from tests.servers.errors import StartFailed

_START_S = 90.0


class Member:
    """One etcd process with its folder and its ports, which a restart keeps."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, secure: tls.Tls | None):
        self.name = name
        self.folder = folder
        self.port, self.peer_port = process.free_port(), process.free_port()
        self.command = command
        self.tls = secure
        self.log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Return ``127.0.0.1:port`` of the clients' side."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Return the process id."""
        assert self._process is not None, "the member is not running"
        return self._process.pid

    def spawn(self, peers: Sequence[Member], options: Sequence[str]) -> None:
        """Start the process; `wait` says when it answers."""
        scheme = "https" if self.tls else "http"
        client, peer = f"{scheme}://{self.address}", f"http://127.0.0.1:{self.peer_port}"
        listed = ",".join(f"{p.name}=http://127.0.0.1:{p.peer_port}" for p in peers)
        command = [
            *self.command, "--name", self.name, "--data-dir", str(self.folder / self.name),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", listed, "--unsafe-no-fsync", "--log-level", "warn", *options,
        ]  # fmt: skip
        if self.tls:
            command += ["--cert-file", str(self.tls.server_cert)]
            command += ["--key-file", str(self.tls.server_key)]
            command += ["--client-cert-auth", "--trusted-ca-file", str(self.tls.ca)]
        self._process = process.spawn(command, cwd=self.folder, log=self.log)

    def kill(self) -> None:
        """End it as a power failure would."""
        self.signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def signal(self, number: int) -> None:
        """Send it a signal; behind SIGSTOP it does nothing more."""
        process.send(self.pid, number)

    def close(self) -> None:
        """End it, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def status(self, timeout_s: float = 1.0) -> etcdrpc.StatusResponse:
        """Return what the member says of itself; raises grpc.RpcError."""
        with self.channel() as channel:
            stub = etcdrpc.MaintenanceStub(channel)
            return stub.Status(etcdrpc.StatusRequest(), timeout=timeout_s)

    def channel(self) -> grpc.Channel:
        """Return a connection."""
        if self.tls is None:
            return grpc.insecure_channel(self.address)
        files = (self.tls.ca, self.tls.key, self.tls.cert)
        shown = grpc.ssl_channel_credentials(*(file.read_bytes() for file in files))
        return grpc.secure_channel(self.address, shown)


class Etcd:
    """Members that belong together."""

    def __init__(
        self, name: str, count: int, options: Sequence[str], *, with_tls: bool = False
    ) -> None:
        self.installed = install.fetch(name)
        self.options = list(options)
        self.folder, self._ours = process.data_folder(None, "etcd")
        self.tls = tls.make(self.folder / "tls") if with_tls else None
        command = self.installed.server_command()
        self.members = [
            Member(f"m{n}", command, self.folder, self.tls) for n in range(1, count + 1)
        ]
        process.register(self)

    @property
    def address(self) -> str:
        """Return what a store is opened by, without a prefix."""
        return "etcd://" + ",".join(m.address for m in self.members)

    def start(self) -> None:
        """Start all members and wait until they have a leader."""
        for member in self.members:
            member.spawn(self.members, self.options)
        for member in self.members:
            self.wait(member)

    def restart(self, member: Member) -> None:
        """Start a member again on its data, and wait for it."""
        member.spawn(self.members, self.options)
        self.wait(member)

    def wait(self, member: Member) -> None:
        """Wait until a member knows a leader."""
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            try:
                if member.status().leader:
                    return
            except grpc.RpcError:
                pass
            time.sleep(0.05)
        raise StartFailed(f"{member.name} has no leader: {process.tail(member.log)}")

    def leader(self) -> Member:
        """Return the member that leads."""
        for member in self.members:
            try:
                status = member.status()
            except grpc.RpcError:
                continue
            if status.leader and status.leader == status.header.member_id:
                return member
        raise AssertionError("nobody leads")

    def close(self) -> None:
        """End all members and remove their folders."""
        for member in self.members:
            member.close()
        if self._ours:
            shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def etcd(
    name: str = "etcd-3.5", count: int = 1, options: Sequence[str] = (), *, with_tls: bool = False
) -> Iterator[Etcd]:
    """Run an etcd of ``count`` members; ``with_tls`` they want certificates of their clients."""
    made = Etcd(name, count, options, with_tls=with_tls)
    try:
        made.start()
        yield made
    finally:
        made.close()
