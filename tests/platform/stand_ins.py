"""Programs in a server's place where only its surroundings matter: Python for `python -c`."""

# Says what it sees, then waits: a server as far as this room is concerned.
SERVER = """
import json, os, sys, time
def text(path):
    try:
        return open(path).read()
    except OSError as problem:
        return problem.strerror
mounts = [line.split(" ")[4] for line in open("/proc/self/mountinfo")]
print(json.dumps({
    "files": {path: text(path) for path in json.loads(sys.argv[1])},
    "mounts": mounts, "ids": [*os.getresuid(), *os.getresgid()], "groups": os.getgroups(), "cwd": os.getcwd(),
    "session": os.getsid(0) == os.getpid(), "umask": os.umask(0), "fds": sorted(os.listdir("/proc/self/fd")),
}), flush=True)
time.sleep(120)
"""

# Tries to write, and to call; says what came of it.
TRYING = """
import errno, json, os, socket, sys, time
def tried(what, *arguments):
    try:
        what(*arguments)
        return "done"
    except OSError as problem:
        return errno.errorcode[problem.errno]
def write(path):
    open(path, "w").write("x")
def call(port):
    with socket.create_connection(("127.0.0.1", port), 2):
        pass
def knock(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)
paths, port, path = json.loads(sys.argv[1])
print(json.dumps({
    **{each: tried(write, each) for each in paths},
    "call": tried(call, port), "knock": tried(knock, path),
    "processes": [name for name in os.listdir("/proc") if name.isdecimal()] == [str(os.getpid())],
}), flush=True)
time.sleep(120)
"""

# As on a kernel before 5.12.
OLD_KERNEL = """
import errno
from zbackup.proc import enter_namespace, mounts
def missing(*_):
    raise OSError(errno.ENOSYS, "no such call")
mounts._set_attributes = missing
enter_namespace.main(enter_namespace.read_order())
"""

# Calls whoever listens in its network, and says what it is told.
CALLING = """
import socket, time
while True:
    for line in open("/proc/net/tcp").readlines()[1:]:
        port = int(line.split()[1].rpartition(":")[2], 16)
        with socket.create_connection(("127.0.0.1", port)) as call:
            print(call.recv(100).decode(), flush=True)
            time.sleep(600)
    time.sleep(0.05)
"""
