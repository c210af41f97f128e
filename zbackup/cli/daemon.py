"""zbackup daemon"""

import sys

from zbackup.cli import logs
from zbackup.cli.log_sink import Sink
from zbackup.cli.options import Options
from zbackup.config.load import load
from zbackup.model.event_log import log

HELP = """Take, prune, ship and test backups on schedule, until told to stop.

Works on every instance with a [instance.NAME.schedule], in the foreground. SIGHUP reads the configuration
again (one that is not valid is refused, and the old one kept); SIGTERM and Ctrl-C let what is running come to
its end first. What it does is logged on stderr.

\b
zbackup daemon
systemctl enable --now zbackup      as a service
systemctl reload zbackup            after a change of the configuration
"""

FLUSH_S = 2.0


def command(options: Options) -> None:
    # The scheduler and the metrics are a tenth of what starting any command would take.
    from zbackup.daemon.service import DaemonService

    sink = Sink(sys.stderr.fileno())
    logs.set_up(debug=options.debug, log_format=options.log_format, events=not options.quiet, sink=sink)
    try:
        DaemonService(lambda: load(options.config), before_exit=lambda: sink.flush(FLUSH_S)).run()
    except KeyboardInterrupt:
        log.info("daemon.stopped", why="told to while it was starting")
    finally:
        sink.flush(FLUSH_S)
