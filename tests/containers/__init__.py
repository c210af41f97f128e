"""The engine code against servers in containers: a lane of its own, run by `make test-containers`."""

import os

# testcontainers reads these when it is imported. Its reaper is an image that would have to be pulled; here
# every container is removed by who started it. And the servers' ports are always this machine's.
os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"
os.environ["TESTCONTAINERS_CONNECTION_MODE"] = "docker_host"
