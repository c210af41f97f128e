"""The web page's back office: it answers the page's questions (reader), and does what it orders (cloner).

The page itself is zbackup.web, which can do nothing. overview looks, operations act on clones.

Read first: command; then reader, cloner.
"""

from collections.abc import Callable

from zbackup.cli.options import Options


def serve_question(options: Options) -> None:
    """Answer one question from the connection on standard input, and leave."""
    from zbackup.features.webpage.reader import serve_one

    serve_one(options)


def serve_order(options: Options, require_trust: Callable[[Options], None]) -> None:
    """Obey one order from the connection on standard input, and leave. `require_trust` raises Refused."""
    from zbackup.features.webpage.cloner import serve_one

    serve_one(options, require_trust)
