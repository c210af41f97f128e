"""The command line of the package."""

import argparse
import sys

from tests.lab import servers


def main(arguments: list[str]) -> int:
    """Run one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.lab.servers", description=servers.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    fetch = commands.add_parser("fetch", help="fetch the named servers, or all")
    fetch.add_argument("names", nargs="*", metavar="NAME")
    commands.add_parser("list", help="show every server and where it is")
    path = commands.add_parser("path", help="print the directory of a fetched server")
    path.add_argument("name", metavar="NAME")
    given = parser.parse_args(arguments)
    try:
        if given.command == "fetch":
            servers.ensure(given.names or servers.NAMES)
        elif given.command == "path":
            print(servers.path(given.name))
        else:
            for name in servers.NAMES:
                print(f"{name:15} {servers.installed(name) or '-'}")
    except servers.ServerUnavailable as failed:
        print(f"servers: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
