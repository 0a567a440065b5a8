"""Addresses below a path, and between the files of a bundle."""

from __future__ import annotations

import pytest

from nemo_pages.links import BundledLinks, ServedLinks, bundled_file, query_text


@pytest.mark.parametrize(
    ("root", "path", "query", "address"),
    [
        ("", "/", {}, "/"),
        ("/user/ann/proxy/1", "/", {"q": "a b"}, "/user/ann/proxy/1/?q=a+b"),
        ("", "/evaluations/ä b?c", {}, "/evaluations/%C3%A4%20b%3Fc"),
        ("", "/", {"state": ["failed", "running"], "q": "", "page": None}, "/?state=failed&state=running"),
    ],
)
def test_an_address_is_quoted_below_its_root(root, path, query, address):
    assert ServedLinks(root).url(path, query) == address


@pytest.mark.parametrize(
    ("here", "path", "address"),
    [
        ("/", "/", "index.html"),
        ("/", "/evaluations/a", "evaluations/a/index.html"),
        ("/evaluations/a", "/", "../../index.html"),
        ("/evaluations/a", "/evaluations/b c", "../b%20c/index.html"),
        ("/evaluations/b%20c", "/evaluations/b c/d%20e", "d%2520e/index.html"),
        ("/", "/evaluations/a?b", "evaluations/a%3Fb/index.html"),
        ("/", "/evaluations/../../../etc/passwd", "evaluations/etc/passwd/index.html"),
    ],
)
def test_a_link_of_a_bundle_leads_from_file_to_file_and_never_out_of_it(here, path, address):
    assert BundledLinks(here).url(path, {"sort": "name"}) == address


def test_a_page_of_a_bundle_finds_its_static_files():
    assert BundledLinks("/evaluations/a").static("pages.css", "1") == "../../pages/static/pages.css"
    assert bundled_file("/") == "index.html"
    assert query_text({}) == ""
