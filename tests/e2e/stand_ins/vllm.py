"""In place of `vllm serve`: the nodes of a server find each other, and the first one answers.

The first node listens at --data-parallel-address and --data-parallel-rpc-port, and serves once a headless one
has connected to it there; each writes its arguments to a file of its rank in the folder $VLLM_ARGUMENTS.
"""

import os
import socket
import sys
import time
from pathlib import Path

words = sys.argv[1:]


def option(name):
    return words[words.index(name) + 1]


rank = option("--data-parallel-start-rank") if "--headless" in words else "0"
Path(os.environ["VLLM_ARGUMENTS"], rank).write_text("\n".join(words))
meeting = option("--data-parallel-address"), int(option("--data-parallel-rpc-port"))
if "--headless" in words:
    while True:
        try:
            with socket.create_connection(meeting) as connection:
                connection.recv(1)  # until the other end is gone
            sys.exit(1)
        except ConnectionRefusedError:
            time.sleep(0.1)
with socket.create_server(meeting) as listener:
    connection, _ = listener.accept()
    connection.set_inheritable(True)
serve = Path(__file__).with_name("serve.py")
host = f"host={option('--host')}"
os.execv(sys.executable, [sys.executable, "-S", str(serve), option("--port"), words[1], "key", host])
