"""zbackup web"""

import os
from pathlib import Path
from typing import Annotated

import typer

from zbackup import app
from zbackup.cli import logs
from zbackup.cli.options import Options
from zbackup.cli.output import emit
from zbackup.model.errors import NotFound, Refused, UsageError
from zbackup.model.printable import printable
from zbackup.proc.helper_socket import ask

HELP = """Serve a web page: what can be restored, where the gaps are and why, clones, jobs.

It has no rights of its own: what it shows it asks at the socket of zbackup-read.socket. It changes nothing,
unless [web] clones = true lets it ask for dev clones and restores, at the socket of zbackup-cloner.socket.
It listens on this machine alone; to let others see it, put a proxy with TLS in front. Whoever wants in needs
a link, which works once: --login prints one.

\b
systemctl enable --now zbackup-read.socket zbackup-web
systemctl enable --now zbackup-cloner.socket                        where clones = true
zbackup web --login
zbackup web --listen 127.0.0.1:8421
zbackup web --socket /run/zbackup-web/http.sock --origin https://zbackup.example.net
zbackup web --socket ... --origin ... --trust-header X-Remote-User   the proxy says who is there
"""

DEFAULT = "127.0.0.1:8420"
LOGIN_SOCKET = "login.sock"


def command(  # noqa: PLR0913  a parameter is an option of the command line
    options: Options,
    login: Annotated[
        bool, typer.Option("--login", help="Print a link that logs in once, within five minutes.")
    ] = False,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where to listen; only this machine's own.")
    ] = DEFAULT,
    path: Annotated[
        Path | None,
        typer.Option("--socket", metavar="PATH", help="Listen at this Unix socket instead, for a proxy."),
    ] = None,
    origin: Annotated[
        str,
        typer.Option(
            "--origin",
            metavar="URL",
            help="How browsers reach it, where a proxy is in front.",
            show_default=False,
        ),
    ] = "",
    header: Annotated[
        str,
        typer.Option(
            "--trust-header",
            metavar="NAME",
            help="The proxy names in this header who is there; with --socket, in place of links.",
            show_default=False,
        ),
    ] = "",
    reader: Annotated[
        Path, typer.Option("--reader", metavar="PATH", help="The socket of zbackup-read.socket.")
    ] = Path("/run/zbackup-read.sock"),
    cloner: Annotated[
        Path, typer.Option("--cloner", metavar="PATH", help="The socket of zbackup-cloner.socket.")
    ] = Path("/run/zbackup-cloner.sock"),
    run_dir: Annotated[
        Path, typer.Option("--run-dir", metavar="DIRECTORY", help="Where links are asked for.")
    ] = Path("/run/zbackup-web"),
) -> None:
    if login:
        link = _link(run_dir)
        emit(options, "web", shape(link), lambda: link)
        return
    if os.geteuid() == 0:
        raise Refused(
            "a web page is not served by root: systemctl enable --now zbackup-read.socket zbackup-web"
        )
    try:
        # Nobody else waits for their import.
        from zbackup.web.server import Listening, serve
    except ModuleNotFoundError as missing:
        raise Refused(f"{missing.name} is not installed: pip install 'zbackup[web]'") from missing
    host, port = _address(listen)
    logs.set_up(debug=options.debug, log_format=options.log_format, events=True)
    listening = Listening(host=host, port=port, path=path, origin=origin, header=header)
    serve(listening, reader, cloner, run_dir, app.clock().now)


def shape(link: str) -> dict[str, str]:
    return {"link": link}


def _link(run_dir: Path) -> str:
    """Raise Refused where no page is served, or whoever asks may not have one."""
    if not (run_dir / LOGIN_SOCKET).is_socket():
        raise NotFound(f"no zbackup web runs that gives links in {run_dir}: systemctl start zbackup-web")
    try:
        return printable(str(ask(run_dir / LOGIN_SOCKET, {})["link"]))
    except KeyError as wrong:
        raise Refused(f"what answers in {run_dir} is no zbackup web") from wrong


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError(f'--listen: "{text}" is no HOST:PORT, such as {DEFAULT}')
    return host.removeprefix("[").removesuffix("]"), int(port)
