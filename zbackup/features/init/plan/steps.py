"""The steps of `zbackup init`, in their order: each may be repeated, what is done is left out. Pure.

The password is on disk before the account has it, the account works before the configuration names it, and
the configuration is in place before the first backup. A run that is killed anywhere leaves a host on which
the next one goes on.
"""

from collections.abc import Iterator, Mapping, Sequence

from zbackup.features.init.plan import service
from zbackup.features.init.setup import AccountState, HostFacts, Newcomer, SetupStep
from zbackup.model.command_line import command_line

CONFIG_MODE = 0o640


def steps(
    newcomers: Sequence[Newcomer],
    accounts: Mapping[str, AccountState],
    config: str,
    facts: HostFacts,
    unfinished: Mapping[str, tuple[bool, bool]],
    groups: Sequence[str],
    drop_ins: Mapping[str, str] | None = None,
) -> tuple[SetupStep, ...]:
    """All that is to be done. A daemon that somebody stopped stays so, unless there is something new.

    `accounts` has the account of each newcomer that needs one, `config` is the configuration's path.
    `unfinished` tells of instances that are configured already whether their first backup, and whether a
    drill that passed, is missing. `groups` are those of the newcomers' files, `drop_ins` the files that
    join the service to groups now (path -> text).
    """
    found: list[SetupStep] = []
    for new in newcomers:
        found += _secrets(new, accounts.get(new.name))
    found += _privileges(newcomers, facts, groups, drop_ins or {})
    if newcomers:
        names = ", ".join(new.name for new in newcomers)
        found.append(SetupStep(kind="config", text=f"add {names} to {config}", path=config, mode=CONFIG_MODE))
        found += service.reload(facts, groups)
    for name, (no_backup, no_drill) in _first(newcomers, unfinished):
        if no_backup:
            found.append(SetupStep(kind="snapshot", instance=name, text=f"take the first backup of {name}"))
        if no_drill:
            text = f"restore it once, check every table, and remove that again: a drill of {name}"
            found.append(SetupStep(kind="drill", instance=name, text=text))
    if not facts.active and (newcomers or unfinished):
        found += service.start(facts)
    return tuple(found)


def _secrets(new: Newcomer, account: AccountState | None) -> Iterator[SetupStep]:
    copies = new.copies
    for key, value in copies.table if copies else ():
        path = value.strip('"')
        if key == "identity":
            yield SetupStep(
                kind="identity", path=path, text=f"make an ssh key without a passphrase in {path}"
            )
        if key == "secret_key":
            path = value.split('"')[1]
            yield SetupStep(kind="credential", path=path, text=f"write the bucket's secret key to {path}")
        if key == "key":
            path = value.split('"')[1]
            yield SetupStep(kind="key", path=path, text=f"make a key for what leaves this host in {path}")
    if account is None or account.works:
        return
    if not account.secret:
        yield SetupStep(
            kind="secret",
            path=new.password,
            text=f"write a random password to {new.password}",
            mode=CONFIG_MODE,
        )
    if new.server.login == "admin":
        text = f"make the account {new.user} at {new.server.where}, which may lock and look, and reads no row"
        yield SetupStep(kind="account", instance=new.name, text=text)
    else:
        path = script_path(new)
        yield SetupStep(
            kind="account-file",
            instance=new.name,
            path=path,
            text=f"write what makes the account {new.user} to {path}, for an administrator to run",
        )


def script_path(new: Newcomer) -> str:
    """The file with what an administrator has to run."""
    ending = "js" if new.server.engine == "mongodb" else "sql"
    return f"{new.password.removesuffix('.password')}.account.{ending}"


def script_command(new: Newcomer) -> str:
    """Return the command with which the administrator runs it."""
    server, path = new.server, command_line(script_path(new))
    if server.engine == "mongodb":
        at = ("--host", server.host, "--port", server.port) if server.host else ("--host", server.socket)
        login = ("-u", "ADMINISTRATOR", "-p", "--authenticationDatabase", "admin")
        return command_line("mongosh", *at, *login, script_path(new))
    program = "mariadb" if server.engine == "mariadb" else "mysql"
    return f"{command_line(program, '-S', server.socket, '-u', 'root', '-p')} < {path}"


def _privileges(
    newcomers: Sequence[Newcomer], facts: HostFacts, groups: Sequence[str], drop_ins: Mapping[str, str]
) -> list[SetupStep]:
    if not facts.systemd:
        return []
    found: list[SetupStep] = []
    for new in newcomers:
        found += service.delegate(new.datasets, ships=new.copies is not None)
    return found + service.join_groups(groups, drop_ins)


def _first(
    newcomers: Sequence[Newcomer], unfinished: Mapping[str, tuple[bool, bool]]
) -> Iterator[tuple[str, tuple[bool, bool]]]:
    yield from unfinished.items()
    for new in newcomers:
        yield new.name, (True, True)
