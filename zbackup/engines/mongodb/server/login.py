"""Options of PyMongo: the address of a server, and how to log in there."""

from typing import Any
from urllib.parse import quote

from zbackup.engines.mongodb.options import ConnectOptions

Document = dict[str, Any]


def address(options: ConnectOptions) -> str:
    """Return the URI of the server."""
    if options.uri:
        return options.uri()
    host = quote(options.socket, safe="") if options.socket else f"{_bracketed(options.host)}:{options.port}"
    return f"mongodb://{host}/"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def login(options: ConnectOptions) -> Document:
    """Return the options of PyMongo that log in."""
    if options.mechanism == "MONGODB-X509":
        return {"authMechanism": options.mechanism, "authSource": "$external"}
    if options.uri or options.password is None:
        return {}
    named = {"authMechanism": options.mechanism} if options.mechanism else {}
    return {
        "username": options.user,
        "password": options.password(),
        "authSource": options.auth_source,
        **named,
    }


def tls(options: ConnectOptions) -> Document:
    """Return the options of PyMongo for TLS."""
    wanted = options.tls
    if wanted is None or options.socket:
        return {}
    files = {"tlsCAFile": wanted.ca, "tlsCertificateKeyFile": wanted.cert}
    lax = {} if wanted.verify else {"tlsAllowInvalidCertificates": True}
    return {"tls": True, **{key: str(path) for key, path in files.items() if path}, **lax}
