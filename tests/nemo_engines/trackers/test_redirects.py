"""A server that redirects a publisher to this machine does not get it there."""

import http.server
import subprocess
import sys
import threading

import pytest

ASK = """
import sys, urllib.request
from nemo_engines.trackers import redirects
redirects.keep_out()
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
print(opener.open(sys.argv[1]).read().decode())
"""


@pytest.fixture
def server():
    """Redirects from the name that was asked to the address of loopback, and answers there."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            port = self.server.server_port
            if self.path == "/":
                self.send_response(302)
                self.send_header("Location", f"http://127.0.0.1:{port}/secret")
                self.end_headers()
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"credentials")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        threading.Thread(target=made.serve_forever, args=(0.002,)).start()
        yield f"http://localhost:{made.server_port}/"
        made.shutdown()


def ask(url, **environ):
    argv = [sys.executable, "-c", ASK, url]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env={"PATH": "/bin", **environ})


@pytest.mark.slow
def test_a_redirect_to_this_machine_is_not_followed(server):
    assert ask(server).stdout == "credentials\n"
    assert ask(server, NEMO_TRACKER_HOSTS="localhost 127.0.0.1").stdout == "credentials\n"
    for hosts in ("localhost", ""):
        refused = ask(server, NEMO_TRACKER_HOSTS=hosts)
        assert refused.stdout == ""
        assert "leads to an address that only this machine may ask" in refused.stderr
