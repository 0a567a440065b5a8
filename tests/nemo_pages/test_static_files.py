"""Vendored files are the ones whose licences and digests are written down; the route keeps what it may."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from nemo_pages.static_files import digest, static_files, static_route

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [ROOT / "src/nemo_pages/static/vendor", ROOT / "tests/browser/vendor"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
def test_every_vendored_file_has_its_digest_and_its_licence(folder):
    known = json.loads((folder / "digests.json").read_text(encoding="utf-8"))
    files = {path.name: path for path in folder.iterdir() if path.suffix in (".js", ".css")}
    assert set(known) == set(files)
    for name, path in files.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == known[name]["sha256"]
    licences = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*LICENSE*"))
    for each in known.values():
        assert each["license"] == "MPL-2.0" or f"{each['package']} {each['version']}" in licences


def test_an_address_with_the_digest_is_kept_and_any_other_is_asked_for_again():
    client = TestClient(Starlette(routes=[static_route()]))
    kept = client.get("/pages/static/pages.css", params={"v": digest("pages.css")})
    assert kept.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert kept.headers["content-type"].startswith("text/css")
    other = client.get("/pages/static/pages.css", params={"v": "0"})
    assert other.headers["cache-control"] == "no-cache"
    again = client.get("/pages/static/pages.css", headers={"if-none-match": other.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("name", ["nothing.js", "../errors.py", "%2e%2e/errors.py", "vendor/", "vendor"])
def test_only_static_files_are_served(name):
    assert TestClient(Starlette(routes=[static_route()])).get(f"/pages/static/{name}").status_code == 404


def test_no_static_file_of_ours_names_an_address_elsewhere():
    own = {name: content.decode() for name, content in static_files().items() if "/" not in name}
    shown = {name: text.replace("http://www.w3.org/2000/svg", "") for name, text in own.items()}
    assert [name for name, text in shown.items() if "http://" in text or "https://" in text] == []
