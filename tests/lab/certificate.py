"""A certificate for servers on the loopback address, which is its own authority."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Certificate:
    """Files in PEM. Who trusts `cert` trusts the server."""

    cert: Path
    key: Path


def certificate(home: Path) -> Certificate:
    """One for two days, in the directory `home`."""
    made = Certificate(home / "cert.pem", home / "key.pem")
    key = ec.generate_private_key(ec.SECP256R1())
    # Members of a MongoDB set know each other by the organization.
    subject = ((NameOID.ORGANIZATION_NAME, "lab"), (NameOID.COMMON_NAME, LOOPBACK))
    name = x509.Name([x509.NameAttribute(kind, value) for kind, value in subject])
    now = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(LOOPBACK))])
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    made.cert.write_bytes(cert.public_bytes(Encoding.PEM))
    made.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return made
