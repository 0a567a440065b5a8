"""A small OpenAI-compatible server in place of a model server: serve.py PORT MODEL [OPTION…].

Options: delay=SECONDS (before each answer), die-after=SECONDS, die-when=FILE (is there), status=N (its exit
status then), grandchild=FILE (leaves a process that left its session and its parent; its number goes there),
deaf (ignores SIGTERM), key (refuses requests without the service's API key), answers=N (further requests wait
until open-when=FILE is there, or for ever),
host=ADDRESS (where it listens), grow-when=FILE (is there: takes memory until it is stopped).
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

port, model, *words = sys.argv[1:]
options = dict(word.partition("=")[::2] for word in words)
left = threading.Semaphore(int(options.get("answers", 1 << 30)))
KEY = f"Bearer {os.environ.get('NEMO_GYM_SERVICE_API_KEY')}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def allowed(self):
        if "key" in options and self.headers["Authorization"] != KEY:
            self.answer({"error": {"message": "no key"}}, 401)
            return False
        return True

    def do_GET(self):
        if self.path == "/health":
            self.answer({"status": "ok"})
        elif self.allowed():
            self.answer({"object": "list", "data": [{"id": model, "object": "model"}]})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(float(options.get("delay", 0)))
        if not left.acquire(blocking=False):
            wait_for(options.get("open-when", "/proc/never"))
        if self.allowed():
            message = {"role": "assistant", "content": "12"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
            answer = {"id": "x", "object": "chat.completion", "model": asked["model"], "choices": [choice]}
            self.answer({**answer, "usage": usage})

    def log_message(self, *args):
        pass


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.05)


if "deaf" in options:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "grandchild" in options:
    lines = "import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
    lines += f"open({options['grandchild']!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    subprocess.run([sys.executable, "-S", "-c", lines], check=True)
if "die-after" in options:
    end = threading.Timer(float(options["die-after"]), lambda: os._exit(int(options.get("status", 1))))
    end.start()
if "die-when" in options:

    def wait_and_die():
        wait_for(options["die-when"])
        os._exit(int(options.get("status", 1)))

    threading.Thread(target=wait_and_die, daemon=True).start()
if "grow-when" in options:

    def wait_and_grow():
        wait_for(options["grow-when"])
        taken = []
        while True:
            taken.append(bytearray(b"x" * (16 << 20)))

    threading.Thread(target=wait_and_grow, daemon=True).start()
server = ThreadingHTTPServer((options.get("host", "127.0.0.1"), int(port)), Handler)
print(f"serving {model} on {server.server_port}", flush=True)
server.serve_forever()
