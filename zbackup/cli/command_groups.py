"""The lists in `--help`: of commands by what people are about to do, and of a long command's options."""

from collections.abc import Mapping
from typing import Any

from typer.core import TyperCommand, TyperGroup

Titles = dict[str, tuple[str, ...]]

GROUPS: Titles = {
    "Set up": ("init", "install-service"),
    "Every day": ("check", "snapshot", "list", "window", "status", "prune"),
    "Restore": ("restore", "log", "copy", "undo", "switch"),
    "Dev clones": ("clone",),
    "Off-site copies": ("ship", "archive", "verify", "received", "fleet", "key", "release", "gate"),
    "Service": ("daemon", "pause", "resume", "acknowledge", "notify", "web", "mount", "helper"),
}
"""Title -> commands. What is in none of them is listed at the end, so that no command is hidden."""

CLONE_GROUPS: Titles = {
    "Set up": ("init", "install-service"),
    "Make and use": ("create", "list", "show", "dsn", "env"),
    "Renew": ("reset", "snapshot", "promote"),
    "Keep": ("extend", "protect"),
    "Stop and remove": ("stop", "start", "destroy"),
}

OTHERS = "Commands"
EVERY_COMMAND = "General"
LONGEST = 400
"""Characters of a command's first sentence: more than any has."""


class GroupedCommands(TyperGroup):
    """A group of commands whose help lists them under titles."""

    titles = GROUPS

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a list for each title, the columns of all lists in line."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        shown = {name: command for name, command in found.items() if command and not command.hidden}
        listed = {name for names in self.titles.values() for name in names}
        groups = {**self.titles, OTHERS: tuple(name for name in shown if name not in listed)}
        wide = max(map(len, shown), default=0)
        for title, names in groups.items():
            rows = [
                (name.ljust(wide), shown[name].get_short_help_str(LONGEST)) for name in names if name in shown
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class CloneCommands(GroupedCommands):
    """The commands of `zbackup clone`."""

    titles = CLONE_GROUPS


def with_titles(groups: Titles) -> type[TyperCommand]:
    """A command whose help lists its options under these titles; those in none of them come last, under
    EVERY_COMMAND."""

    class GroupedOptions(TyperCommand):
        def format_options(self, ctx: Any, formatter: Any) -> None:
            title_of = {name: title for title, names in groups.items() for name in names}
            rows: Mapping[str, list[tuple[str, str]]] = {
                title: [] for title in ("Arguments", *groups, EVERY_COMMAND)
            }
            for param in self.get_params(ctx):
                is_argument = param.param_type_name == "argument"
                title = "Arguments" if is_argument else title_of.get(param.opts[0], EVERY_COMMAND)
                if record := param.get_help_record(ctx):
                    rows[title].append(record)
            for title, listed in rows.items():
                with formatter.section(title):
                    formatter.write_dl(listed)

    return GroupedOptions
