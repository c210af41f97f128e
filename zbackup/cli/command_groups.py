"""The list of commands in `--help`: by what people are about to do, each with its whole first sentence."""

from typing import Any

from typer.core import TyperGroup

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
