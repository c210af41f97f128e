"""zbackup init"""

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from zbackup import app
from zbackup.cli import output
from zbackup.cli.options import Options
from zbackup.cli.output import tell
from zbackup.config.load import find, parse
from zbackup.config.secret import SecretRef
from zbackup.config.settings import Settings
from zbackup.features.init import questions as questions
from zbackup.features.init import receive_command, words
from zbackup.features.init.draft import Draft, draft, known_hosts_line, named, with_known_host
from zbackup.features.init.finish import Finished, protect
from zbackup.features.init.jobs import host
from zbackup.features.init.jobs.accounts import account, configured, unfinished
from zbackup.features.init.jobs.act import Acting, act, read_config
from zbackup.features.init.jobs.administrators import Administrator, account_script, administrator
from zbackup.features.init.jobs.discover import Passed, discover, first_admitted, is_ordinary, seen
from zbackup.features.init.options import (
    AccessKey,
    AdminPasswordFile,
    AdminUser,
    BucketAnswers,
    CopiesTo,
    Dataset,
    Endpoint,
    HostKey,
    Instances,
    Key,
    NoDrill,
    Print,
    PublicKey,
    Quota,
    Receive,
    Retention,
    SecretKeyFile,
    User,
    Wishes,
    Yes,
)
from zbackup.features.init.plan import receive as receiving
from zbackup.features.init.plan import service
from zbackup.features.init.plan.config_text import whole
from zbackup.features.init.plan.presets import preset
from zbackup.features.init.plan.steps import steps
from zbackup.features.init.setup import AccountState, FoundServer, HostFacts, Newcomer, SetupStep
from zbackup.model.command_line import command_line
from zbackup.model.errors import Declined, NotFound, Refused, UsageError, ZbackupError
from zbackup.model.progress import Silent
from zbackup.model.root_directories import RUN
from zbackup.proc.run import run
from zbackup.zfs.datasets import Zfs

HELP = """Set zbackup up on this host: from running database servers to proven backups.

Finds the MySQL, MariaDB and MongoDB servers that run here and the datasets below them, asks what it must,
shows every step, and then does them: the database account, the configuration, the service, the first backup,
and a drill that restores it. Moves no data. Run again, it continues where it was interrupted, adds
servers that are new, and changes nothing else.

\b
zbackup init                                 ask, show, do
zbackup init --print                         look only: the steps, and the configuration as it would be
zbackup init --yes --retention long          ask nothing, for Ansible and the like
zbackup init --yes --instance shop=/run/mysqld/mysqld.sock --copies ssh://zrecv@vault/tank/backups/db1
zbackup init --yes --copies s3://bucket/db1 --access-key AKIA... --secret-key-file /root/s3.secret
zbackup init --receive --dataset tank/backups/db1 --key "ssh-ed25519 AAAA... db1"   on the host that receives
"""

USUAL_RECEIVER = "zrecv"
USUAL_RUN_DIR = Path(RUN)


def command(  # noqa: PLR0913  a parameter is an option of the command line
    options: Options,
    yes: Yes = False,
    print_only: Print = False,
    instance: Instances = None,
    retention: Retention = "",
    copies: CopiesTo = "",
    endpoint: Endpoint = "",
    access_key: AccessKey = "",
    secret_key_file: SecretKeyFile = None,
    public_key: PublicKey = "",
    host_key: HostKey = "",
    admin_user: AdminUser = "",
    admin_password_file: AdminPasswordFile = None,
    no_drill: NoDrill = False,
    receive: Receive = False,
    dataset: Dataset = "",
    user: User = "",
    key: Key = "",
    quota: Quota = "",
) -> None:
    if os.geteuid() != 0:
        raise Refused("zbackup init makes accounts, files and a service: run it as root")
    if receive:
        receive_command.command(
            options, dataset, user or USUAL_RECEIVER, key, quota, yes=yes, print_only=print_only
        )
        return
    if dataset or user or key or quota:
        raise UsageError("--dataset, --user, --key and --quota are for a host that receives: add --receive")
    if admin_password_file and not admin_user:
        raise UsageError("--admin-password-file needs --admin-user")
    if admin_password_file and not instance:
        raise UsageError(
            "--admin-password-file is for a server that you name, so that no other is sent it: add "
            "--instance NAME=WHERE (zbackup init --print shows what is found)"
        )
    wishes = Wishes(
        yes=yes,
        print_only=print_only,
        named=named(instance or []),
        retention=retention,
        copies=copies,
        host_key=receiving.public_key(host_key) if host_key else "",
        bucket=BucketAnswers(
            endpoint=endpoint,
            access_key=access_key,
            secret_key=_secret(secret_key_file) or "",
            public_key=public_key,
        ),
        admin_user=admin_user,
        admin_password=_secret(admin_password_file),
        drill=not no_drill,
    )
    _require_sound(wishes)
    _Init(options, wishes).run()


def _secret(file: Path | None) -> str | None:
    return SecretRef("file", str(file.absolute())).read() if file else None


def _require_sound(wishes: Wishes) -> None:
    """Raise UsageError for answers that no question would have taken, before anything is looked at."""
    if wishes.retention:
        preset(wishes.retention)
    if wishes.copies:
        questions.require_address(wishes.copies)
    if wishes.host_key:
        known_hosts_line(wishes.copies, wishes.host_key)
    if wishes.bucket != BucketAnswers():
        questions.require_bucket(wishes.copies, wishes.bucket)


class _Init:
    """One run: what was looked at, and what was decided."""

    def __init__(self, options: Options, wishes: Wishes) -> None:
        self.options, self.wishes = options, wishes
        self.began = time.monotonic()
        self.ask = questions.asked(yes=wishes.yes, print_only=wishes.print_only)
        self.config = find(options.config).absolute()
        self.before = read_config(self.config)
        self.settings: Settings | None = parse(self.before, str(self.config)) if self.before.strip() else None
        self.zfs = Zfs(run)
        self.logins: dict[str, tuple[str, str]] = {}

    def run(self) -> None:
        """Look, plan, show, act, report."""
        plan = self._draft()
        after = whole(self.before, plan.newcomers)
        if plan.newcomers:
            parse(after, str(self.config))
        facts = host.inspect()
        wanted = self._steps(plan, facts)
        stopped = service.stopped(facts, wanted)
        for text in (*plan.advice, *filter(None, [self._closed(facts), stopped])):
            tell(f"advice: {text}")
        if self.wishes.print_only:
            self._print(wanted, after, plan)
            return
        if self.ask and wanted:
            questions.confirm(wanted)
        elif not self.options.quiet:
            for line in words.numbered(wanted):
                tell(line)
        acting = Acting(
            config=self.config,
            before=self.before,
            after=after,
            newcomers={new.name: new for new in plan.newcomers},
            secret_key=plan.secret_key,
            administrator=lambda new: first_admitted(self._administrators(new.server)),
            script=lambda new, password: account_script(new.server, new.user, password),
        )
        finished = protect(self.options, self.config, wanted, lambda step: act(step, acting), plan, facts)
        self._report(wanted, finished, plan, facts)

    # look

    def _draft(self) -> Draft:
        """Draft the list of servers that come new. Raise NotFound, or Refused, where there is
        nothing to protect at all."""
        servers, passed = self._discover()
        known = {s.where: name for s in servers if (name := configured(s, self.settings))}
        if not self.options.quiet:
            for line in words.found(servers, known, passed):
                tell(line)
        servers = tuple(self._let_in(server) for server in servers)
        plan = draft(self.wishes, servers, known, self.settings, self.config.parent, self.zfs, ask=self.ask)
        if self.ask and not (plan.newcomers or plan.problems) and len(known) < len(servers):
            raise Declined("every server was left out; nothing was changed")
        if not plan.newcomers and self.settings is None:
            raise plan.problems[0] if plan.problems else self._nothing(plan.left, passed)
        return replace(plan, left=(*plan.left, *map(words.passed_over, passed)))

    def _discover(self) -> tuple[tuple[FoundServer, ...], tuple[Passed, ...]]:
        run_dir = self.settings.run_dir if self.settings else USUAL_RUN_DIR
        return discover(self.zfs, run_dir, self.wishes.named, self._administrators)

    def _let_in(self, server: FoundServer) -> FoundServer:
        """Ask for an administrator where nobody could log in, and somebody can be asked."""
        if not (self.ask and server.login == "refused") or configured(server, self.settings):
            return server
        if self.wishes.named and server.where not in self.wishes.named:
            return server
        if is_ordinary(server):
            if self.wishes.named:
                user = server.process.user
                tell(f"{server.where}: the ordinary user {user} runs it: no administrator's password is sent")
            return server
        told = questions.administrator(server.where, server.problem)
        if told is None:
            return server
        self.logins[server.where] = told
        return self._let_in(seen(server, self.zfs, self._administrators(server)))

    def _administrators(self, server: FoundServer) -> Sequence[Administrator]:
        told = self.logins.get(server.where)
        if told is None and self.wishes.admin_password is not None and server.where in self.wishes.named:
            if is_ordinary(server):
                raise Refused(
                    f"the ordinary user {server.process.user} runs the server at {server.where}: no "
                    "administrator's password is sent to it; nothing was changed"
                )
            told = (self.wishes.admin_user, self.wishes.admin_password)
        by_password = [administrator(server, *told)] if told else []
        if server.engine == "mongodb":
            return [administrator(server, "", None), *by_password]
        return [*by_password, administrator(server, self.wishes.admin_user or "root", None)]

    def _nothing(self, left: Sequence[str], passed: Sequence[Passed]) -> ZbackupError:
        if left:
            return Refused(f"nothing is protected: {left[0]}")
        if passed:
            return Refused(f"no database server here can be protected: {passed[0].why}")
        return NotFound(
            "no mysqld, mariadbd or mongod runs on this host: start it, and run zbackup init again"
        )

    # plan

    def _steps(self, plan: Draft, facts: HostFacts) -> tuple[SetupStep, ...]:
        accounts: dict[str, AccountState] = {}
        for new in plan.newcomers:
            found = account(new, first_admitted(self._administrators(new.server)))
            if found is not None:
                accounts[new.name] = found
        installed: list[SetupStep] = []
        if facts.systemd and (plan.newcomers or not facts.active):
            host.require_roots_program(facts.program)
            installed = service.install(host.texts(), facts, host.there())
        old = self.settings.instance.values() if self.settings else ()
        contexts = [app.context(self.settings, each, Silent()) for each in old] if self.settings else []
        left = dict(unfinished(contexts))
        if not self.wishes.drill:
            left = {name: (backup, False) for name, (backup, _) in left.items() if backup}
        groups = [host.group_name(new.server.process.gid) for new in plan.newcomers]
        own = steps(plan.newcomers, accounts, str(self.config), facts, left, groups, host.there())
        hosts = self._known_hosts(plan.newcomers)
        found_steps = (*installed, *hosts, *own)
        return tuple(step for step in found_steps if self.wishes.drill or step.kind != "drill")

    def _closed(self, facts: HostFacts) -> str:
        """Return why the daemon could not read the configuration that is there, "" when it can."""
        if not (facts.systemd and self.before) or host.daemon_may_read(self.config):
            return ""
        group, mode = command_line("chgrp", "zbackup", self.config), command_line("chmod", 640, self.config)
        return f"the daemon cannot read {self.config}: {group} && {mode}"

    def _known_hosts(self, newcomers: Sequence[Newcomer]) -> list[SetupStep]:
        tables = [dict(new.copies.table) for new in newcomers if new.copies]
        path = next((table["known_hosts"].strip('"') for table in tables if "known_hosts" in table), "")
        if not path:
            return []
        there = read_config(Path(path))
        content = with_known_host(there, known_hosts_line(self.wishes.copies, self.wishes.host_key))
        if content == there:
            return []
        text = f"write the other host's key to {path}"
        return [SetupStep(kind="write", text=text, path=path, content=content, mode=0o644)]

    def _undone(self, facts: HostFacts, wanted: Sequence[SetupStep]) -> str:
        """Say what is left to do for a daemon that runs; "" for nothing."""
        return service.by_hand(facts) or service.stopped(facts, wanted)

    # report

    def _print(self, wanted: Sequence[SetupStep], after: str, plan: Draft) -> None:
        for line in words.numbered(wanted):
            tell(line)
        data = self._data(wanted, Finished(), plan, after)
        output.emit(self.options, "init", data, lambda: after.removesuffix("\n"))
        self._end(Finished(), plan)

    def _report(self, wanted: Sequence[SetupStep], finished: Finished, plan: Draft, facts: HostFacts) -> None:
        output.emit(
            self.options,
            "init",
            self._data(wanted, finished, plan),
            lambda: "\n".join(
                finished.text(plan, self._undone(facts, wanted), time.monotonic() - self.began)
            ),
        )
        self._end(finished, plan)

    def _data(
        self, wanted: Sequence[SetupStep], finished: Finished, plan: Draft, configuration: str | None = None
    ) -> dict[str, Any]:
        return words.report_shape(
            str(self.config),
            [new.name for new in plan.newcomers],
            wanted,
            finished.done,
            finished.not_protected(plan),
            seconds=time.monotonic() - self.began,
            configuration=configuration,
        )

    def _end(self, finished: Finished, plan: Draft) -> None:
        """Say what was asked for and not given; leave with the exit status of the first."""
        for text in plan.left:
            tell(f"not protected: {text}")
        problems: list[ZbackupError] = [*finished.failed, *plan.problems]
        if plan.left and self.wishes.yes and not self.wishes.named:
            problems.append(Refused("not every server that was found is protected: see the lines above"))
        for problem in problems:
            output.print_error(problem, as_json=False)
        if status := next((p.exit_status for p in problems), finished.status):
            raise typer.Exit(status)
