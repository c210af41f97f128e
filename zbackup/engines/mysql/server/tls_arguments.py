"""Encrypted connections, in the words of PyMySQL."""

import ssl
from typing import Any

from zbackup.engines.mysql.options import ConnectOptions
from zbackup.model.errors import DatabaseError


def tls_arguments(options: ConnectOptions) -> dict[str, Any]:
    """PyMySQL's own leave the server's name unchecked when no CA file is given.

    Raise DatabaseError when a file cannot be used.
    """
    if options.socket:
        return {"ssl_disabled": True}
    if (tls := options.tls) is None:
        return {}
    try:
        context = ssl.create_default_context(cafile=tls.ca)
        if tls.cert:
            context.load_cert_chain(tls.cert, tls.key)
    except OSError as failure:
        raise DatabaseError(f"cannot set up TLS to {options.where}: {failure}") from None
    # The certificates that servers make for themselves lack what strict checking asks for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return {"ssl": context}
