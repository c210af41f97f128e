"""The role from a wheel under a systemd, with MariaDB on ZFS, in the lab's guest: systemd_story.py WHEELS"""

import json
import os
import sys
import tempfile
from pathlib import Path

from tests.slow.init_under_systemd import GROUP, Host, bare_host, in_the_guest
from tests.system.house import wait_until
from tests.system.program import Result
from zbackup.engines.mysql.server import account

HERE = Path(__file__).resolve().parent
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
PROGRAM = "/usr/local/bin/zbackup"
PLAY = """
- hosts: localhost
  connection: local
  roles:
    - role: zbackup
      vars:
        zbackup_install: pip
        zbackup_wheel: {wheel}
        zbackup_datasets: [{dataset}]
        zbackup_groups: [{group}]
        zbackup_secrets: {{shop.password: "a secret"}}
        zbackup_config: |
          [instance.shop]
          engine = "mariadb"
          datasets = ["{dataset}"]
          socket = "{socket}"
          user = "zbackup"
          password = {{ file = "/etc/zbackup/shop.password" }}
          [instance.shop.schedule]
          snapshot = "5m"
          prune = "1h"
          [instance.shop.retention]
          keep = ["every 5 minutes for 2 hours"]
          window = "2 hours"
"""


def main(wheels: Path) -> None:
    """Apply the role twice. Ends with an error when something does not succeed."""
    if not in_the_guest():
        sys.exit("this changes /etc: run it in the lab's guest")
    with bare_host() as host:
        for statement in account.script("mariadb", "zbackup", "a secret").split(";\n"):
            if statement.strip():
                host.server.sql(statement)
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as play:
            (wheel,) = wheels.glob("zbackup-*.whl")
            socket = host.server.settings.socket
            dataset = f"{host.pool.name}/shop"
            play.write(PLAY.format(wheel=wheel, dataset=dataset, group=GROUP, socket=socket))
            play.flush()
            applied(host, play.name, wheels)
            say("story: applied")
            wait_until("status is ok", lambda: health(host) == "ok", 240)
            assert host.systemd.show("zbackup.service", "User") == "zbackup"
            say("story: the daemon runs and status is ok")
            again = applied(host, play.name, wheels)
            say("story: run again, it changes nothing" if "changed=0 " in again.out else str(again))


def applied(host: Host, play: str, wheels: Path) -> Result:
    """Run the role where systemd's processes are."""
    place = tempfile.mkdtemp()
    environment = {
        "PATH": f"{PLAYBOOK.parent}:{os.environ['PATH']}",
        "HOME": place,
        "ANSIBLE_LOCAL_TEMP": place,
        "ANSIBLE_REMOTE_TEMP": place,
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_ROLES_PATH": str(HERE / "roles"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
    }
    words = ("-i", "localhost,", "-e", f"ansible_python_interpreter={sys.executable}", play)
    done = host.systemd.inside(str(PLAYBOOK), *words, environment=environment)
    if done.rc != 0:
        sys.exit(f"{done}\n{host.systemd.journal('zbackup.service')}")
    return done


def health(host: Host) -> str:
    """What status says of the one instance."""
    said = host.systemd.inside(PROGRAM, "status", "--json").out
    return str(json.loads(said)["data"][0]["health"])


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
