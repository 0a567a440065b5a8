"""Whom a connection trusts."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_helix_plugin.client import errors, session
from nemo_helix_plugin.client.client import NemoClient


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)


def options(url: str):
    with NemoClient(base_url=url) as client:
        return client._options


@pytest.mark.parametrize("url", ["https://service.example", "http://127.0.0.1:8080"])
def test_authorities_of_the_package_are_read_once(url: str) -> None:
    assert session.tls_context(options(url)) is session.tls_context(options("https://other.example"))


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_authorities_of_the_environment_are_read_whenever_it_names_some(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far, near = options("https://service.example"), options("http://localhost:8080")
    bundled = session.tls_context(far)
    monkeypatch.setenv(variable, str(tmp_path))
    if variable == "SSL_CERT_DIR":
        assert session.tls_context(far) is not bundled
    else:
        with pytest.raises(errors.CertificateError, match="SSL_CERT_FILE or SSL_CERT_DIR"):
            session.tls_context(far)
    assert session.tls_context(near) is bundled


def test_an_authority_of_a_context_is_read_each_time(tmp_path: Path) -> None:
    (tmp_path / "authority.pem").write_text("nothing", encoding="utf-8")
    with pytest.raises(errors.CertificateError, match="authority"):
        NemoClient(base_url="https://service.example", certificate_authority=tmp_path / "authority.pem")
