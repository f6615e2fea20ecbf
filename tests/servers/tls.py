"""A certificate authority for tests, with a server and a client certificate."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Tls:
    """PEM files: the authority, the server's and a client's certificate and key."""

    ca: Path
    server_cert: Path
    server_key: Path
    cert: Path
    key: Path

    def options(self) -> list[str]:
        """Return a database server's options."""
        return [
            f"--ssl-ca={self.ca}",
            f"--ssl-cert={self.server_cert}",
            f"--ssl-key={self.server_key}",
        ]

    def context(self) -> ssl.SSLContext:
        """Return a client's context, which trusts the authority and has the certificate."""
        context = ssl.create_default_context(cafile=str(self.ca))
        context.load_cert_chain(self.cert, self.key)
        return context


def make(folder: Path) -> Tls:
    """Return the files in ``folder``, made if they are not there."""
    made = Tls(
        folder / "ca.pem",
        folder / "server.pem",
        folder / "server.key",
        folder / "client.pem",
        folder / "client.key",
    )
    if made.key.exists():
        return made
    folder.mkdir(parents=True, exist_ok=True)
    ca_key = _key()
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tidegate tests")])
    ca = _certificate(ca_name, ca_name, ca_key, ca_key, ca=True)
    made.ca.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    for common, certificate, key_file in (
        ("localhost", made.server_cert, made.server_key),
        ("tidegate", made.cert, made.key),
    ):
        key = _key()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
        signed = _certificate(name, ca_name, key, ca_key, ca=False)
        certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        _write_key(key, key_file)
    return made


def self_signed(folder: Path) -> tuple[Path, Path]:
    """Return a certificate of a server that no authority has signed, and its key, in a folder."""
    certificate, key_file, key = folder / "own.pem", folder / "own.key", _key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    signed = _certificate(name, name, key, key, ca=False)
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    _write_key(key, key_file)
    return certificate, key_file


def _write_key(key: rsa.RSAPrivateKey, file: Path) -> None:
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    file.chmod(0o600)


def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: rsa.RSAPrivateKey,
    signer: rsa.RSAPrivateKey,
    *,
    ca: bool,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if not ca:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signer, hashes.SHA256())
