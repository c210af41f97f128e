"""One question of the web page's, from the connection on standard input: `zbackup helper --read`"""

import json
import os
import pwd
import socket
from dataclasses import replace

import typer

from zbackup import app
from zbackup.cli import logs
from zbackup.cli.options import Options
from zbackup.config.load import load
from zbackup.config.settings import Settings
from zbackup.features.webpage.effective import effective
from zbackup.features.webpage.operations.record import Operations
from zbackup.features.webpage.overview.inspect import Subject, inspect
from zbackup.features.webpage.overview.reader import obey, parse, require_role
from zbackup.jobs.job_history import JobHistory
from zbackup.jobs.journal import Journal
from zbackup.model.errors import ZbackupError
from zbackup.model.event_log import log
from zbackup.model.overview import Overview
from zbackup.model.progress import Silent
from zbackup.proc.helper_socket import answer_much, hear
from zbackup.proc.lock import lock_owner
from zbackup.registry import annex


def serve_one(options: Options) -> None:
    """Answer one question, and leave with the exit status of what went wrong."""
    logs.set_up(debug=options.debug, log_format=options.log_format, events=True)
    connection, uid, said = hear(0)
    logs.bind(asked_by=str(uid))
    try:
        content = answer(load(options.config), uid, said)
    except ZbackupError as failure:
        told = {"refused": " ".join(str(failure).split()), "kind": type(failure).__name__}
        answer_much(connection, json.dumps(told).encode())
        log.warning("reader.refused", why=str(failure))
        raise typer.Exit(failure.exit_status) from None
    answer_much(connection, content)


def answer(settings: Settings, uid: int, said: str) -> bytes:
    """Return what is answered to whom. Raise Refused where it is not his, and what looking raises."""
    require_role(uid, readers(settings))
    question = parse(said)
    contexts = {i.name: app.context(settings, i, Silent()) for i in settings.instance.values()}
    log.info("reader.asked", verb=question.verb, instance=question.instance)
    return obey(
        question,
        contexts,
        lambda: overview(settings),
        Operations(settings.run_dir).read,
        lambda: annex("fleet.command").configured(settings),
        JobHistory(settings.daemon.state_dir).read,
    )


def readers(settings: Settings) -> frozenset[int]:
    """The user ids that may read: root, whoever we are, and whom the configuration names."""
    found = {0, os.geteuid()}
    for name in settings.web.readers:
        try:
            found.add(pwd.getpwnam(name).pw_uid)
        except KeyError:
            continue
    return frozenset(found)


def overview(settings: Settings) -> Overview:
    """All that the pages show."""
    now = app.clock().now()
    if not settings.instance:
        return Overview(
            host=socket.gethostname(),
            zone=settings.timezone.key,
            looked=now,
            daemon_runs=bool(lock_owner(app.daemon_lock(settings))),
            instances=(),
            settings=effective(settings),
            fleet=settings.web.shows_fleet,
        )
    subjects = [
        Subject(app.context(settings, instance, Silent()), app.expected(settings, instance, now))
        for instance in settings.instance.values()
    ]
    seen = inspect(
        subjects,
        socket.gethostname(),
        Journal(settings.daemon.state_dir).read(),
        app.operator_file(settings).read(),
        daemon_runs=bool(lock_owner(app.daemon_lock(settings))),
        settings=effective(settings),
    )
    return replace(seen, may_clone=settings.web.clones, fleet=settings.web.shows_fleet)
