"""A telemetry collector that collects nothing: it answers its health check and says what it was given.

Takes `--config FILE`, expands `${env:VAR}` in it as the real one does, and writes a digest of what its
exporter would send as authorization to otel/metrics.jsonl. SIGTERM ends it with a last line.
"""

import hashlib
import json
import os
import re
import signal
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

text = Path(sys.argv[sys.argv.index("--config") + 1]).read_text()
config = json.loads(re.sub(r"\$\{env:(\w+)\}", lambda found: os.environ[found[1]], text))
folder = Path(os.environ["NEMO_GYM_OTEL_DIR"])
authorization = config["exporters"]["otlphttp"]["headers"]["Authorization"].encode()
jobs = config["receivers"]["prometheus"]["config"]["scrape_configs"]
targets = [job["static_configs"][0]["targets"][0] for job in jobs]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args):
        pass


def note(**values):
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(values) + "\n")


def end(*_):
    with urllib.request.urlopen(f"http://{targets[0]}/health", timeout=5) as response:
        note(event="last scrape", status=response.status)
    os._exit(0)


signal.signal(signal.SIGTERM, end)
note(event="started", authorization=hashlib.sha256(authorization).hexdigest(), targets=targets)
host, port = config["extensions"]["health_check"]["endpoint"].split(":")
server = HTTPServer((host, int(port)), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
while True:
    signal.pause()
