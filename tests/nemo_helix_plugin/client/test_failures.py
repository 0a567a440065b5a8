"""Each thing that can go wrong is one sentence that says where, and never a token."""

from __future__ import annotations

import socket
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest
from tests.nemo_helix_plugin.client.scripted import Answer, Scripted, job, scripted

from nemo_helix_plugin import errors as base
from nemo_helix_plugin.client import errors
from nemo_helix_plugin.client.client import NemoClient
from nemo_helix_plugin.client.retries import RetryPolicy

NAME = "automodel-a1b2c3d4e5f6"
JOB = f"/apis/jobs/v2/workspaces/default/jobs/{NAME}"
TOKEN = "very-secret-token"


def asked(base_url: str, **options: object) -> errors.NemoClientError:
    defaults = {"workspace": "default", "context": "lab", "retry": RetryPolicy.none(), "auth": TOKEN}
    client = NemoClient(base_url=base_url, **{**defaults, **options})  # type: ignore[arg-type]
    with client, pytest.raises(errors.NemoClientError) as caught:
        client.jobs.get_job(name=NAME)
    message = str(caught.value)
    assert TOKEN not in message
    assert "\n" not in message
    assert isinstance(caught.value, base.NemoError)
    return caught.value


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_server_that_is_down() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    error = asked(url)
    assert str(error) == (
        f"no service answers at {url} (context lab) (Connection refused); "
        "is it running ('nemo services run')?"
    )
    assert isinstance(error, errors.NemoTransportError)
    assert isinstance(error.error, httpx.ConnectError)
    assert error.exit_status == base.EXIT_REMOTE


def test_a_server_that_gives_no_answer_in_time() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        error = asked(url, timeout=0.2)
    assert str(error) == f"the service at {url} (context lab) gave no answer within 0.2 seconds"
    assert isinstance(error, errors.NemoTimeoutError)


def test_a_server_that_hangs_up(service: Scripted) -> None:
    service.on("GET", JOB, Answer(hang_up=True))
    assert "hung up before its answer was complete" in str(asked(service.base_url))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("authority")
    argv = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=127.0.0.1",
    ]
    argv += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(argv, cwd=folder, check=True, capture_output=True, timeout=60)
    return folder


def tls(authority: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "cert.pem", authority / "key.pem")
    return context


def test_a_certificate_that_is_not_trusted_and_the_authority_that_makes_it_so(authority: Path) -> None:
    with scripted(tls(authority)) as service:
        service.on("GET", JOB, Answer(job()))
        error = asked(service.base_url)
        assert isinstance(error, errors.CertificateError)
        assert f"the certificate of {service.base_url} (context lab) is not trusted (self" in str(error)
        assert "--certificate-authority" in str(error)
        with NemoClient(
            base_url=service.base_url, workspace="default", certificate_authority=authority / "cert.pem"
        ) as client:
            assert client.jobs.get_job(name=NAME).data().name == NAME


def test_an_address_with_https_where_http_is_spoken(service: Scripted) -> None:
    error = asked(service.base_url.replace("http://", "https://"))
    assert isinstance(error, errors.CertificateError)
    assert "does its address begin with http:// instead?" in str(error)


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_an_authority_that_cannot_be_read(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "ca.pem"
    if content:
        path.write_text(content)
    with pytest.raises(errors.CertificateError, match=f"authority {path} of https://x.* cannot be read"):
        NemoClient(base_url="https://x.example", certificate_authority=path)


def test_a_proxys_page_in_place_of_the_service(service: Scripted) -> None:
    html = {"content-type": "text/html; charset=utf-8"}
    service.on("GET", JOB, Answer(b"<html>Welcome</html>", headers=html))
    error = asked(service.base_url)
    assert isinstance(error, errors.NemoResponseValidationError)
    assert f"{service.base_url} (context lab) answered GET {JOB} with text/html instead of JSON" in str(error)
    service.on("GET", JOB, Answer(b"<html>Bad gateway</html>", 502, html))
    assert str(asked(service.base_url)) == (
        f"{service.base_url} (context lab) answered 502: Bad Gateway "
        "(text/html, not the Jobs service's own answer)"
    )


def test_json_that_is_something_else(service: Scripted) -> None:
    service.on("GET", JOB, Answer({"hello": "world"}))
    assert "something that this version cannot read: id: Field required" in str(asked(service.base_url))


def test_a_redirect_is_not_followed_with_the_token(service: Scripted) -> None:
    service.on("GET", JOB, Answer({}, 307, {"location": "http://elsewhere.example/"}))
    assert "it points to http://elsewhere.example/ instead" in str(asked(service.base_url))
    assert len(service.asked) == 1


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (400, errors.BadRequestError, "the sentence [400, {where}]"),
        (
            401,
            errors.AuthenticationError,
            "{where} does not accept the access token, or wants one: the sentence; ",
        ),
        (403, errors.PermissionDeniedError, "{where} does not allow this: the sentence"),
        (404, errors.NotFoundError, "the sentence [404, {where}]"),
        (409, errors.ConflictError, "the sentence [409, {where}]"),
        (418, errors.NemoHTTPError, "{where} answered 418: the sentence"),
        (422, errors.UnprocessableEntityError, "the sentence [422, {where}]"),
        (429, errors.RateLimitError, "{where} is asked too much at once: the sentence"),
        (500, errors.InternalServerError, "{where} answered 500: the sentence"),
        (503, errors.InternalServerError, "{where} answered 503: the sentence"),
    ],
)
def test_each_status_has_its_class_and_its_words(
    service: Scripted, status: int, kind: type[errors.NemoHTTPError], words: str
) -> None:
    service.on("GET", JOB, Answer({"detail": "the sentence."}, status))
    error = asked(service.base_url)
    assert type(error) is kind
    assert str(error).startswith(words.format(where=f"{service.base_url} (context lab)"))
    assert error.detail == "the sentence"
    assert error.body == {"detail": "the sentence."}
    assert error.status_code == status
    assert error.request == f"GET {service.base_url}{JOB}"


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (
            {"detail": [{"loc": ["body", "spec"], "msg": "Value error, not good"}, {"msg": "bad"}]},
            "spec: not good; bad",
        ),
        ({"detail": [{"loc": []}], "message": "spec: not good."}, "spec: not good"),
        ({}, "Unprocessable Entity (application/json, not the Jobs service's own answer)"),
        ({"detail": {"code": 7}}, '{"code": 7}'),
    ],
)
def test_the_problems_of_a_body_become_one_sentence(service: Scripted, body: object, detail: str) -> None:
    service.on("GET", JOB, Answer(body, 422))
    error = asked(service.base_url)
    assert isinstance(error, errors.UnprocessableEntityError)
    assert error.detail == detail


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer other"}])
def test_a_token_does_not_leave_this_machine_in_the_clear(headers: dict[str, str]) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise AssertionError("something was sent")

    error = asked(
        "http://service.example:8080",
        auth=None if headers else TOKEN,
        default_headers=headers,
        transport=httpx.MockTransport(handler),
    )
    assert isinstance(error, errors.InsecureTransportError)
    assert str(error).startswith(
        "an access token is not sent to http://service.example:8080 (context lab) unenc"
    )
    assert error.exit_status == base.EXIT_LOCAL


def test_a_password_in_the_address_does_not_leave_in_the_clear_either() -> None:
    error = asked("http://me:hidden@service.example", auth=None)
    assert isinstance(error, errors.InsecureTransportError)
    assert "hidden" not in str(error)


@pytest.mark.parametrize("token", [TOKEN + "\n", "caf\u00e9-token", TOKEN + "\r\nX-Other: 1"])
def test_a_token_that_no_header_can_carry_is_not_shown(service: Scripted, token: str) -> None:
    client = NemoClient(base_url=service.base_url, workspace="default", auth=token)
    with client, pytest.raises(base.ContextFileError, match="is not one line of plain ASCII text") as caught:
        client.jobs.get_job(name=NAME)
    assert "token-" not in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert service.asked == []


@pytest.mark.parametrize(
    "url", ["http://localhost:1", "http://127.8.9.1", "http://[::1]:80", "https://service.example"]
)
def test_a_token_is_sent_on_this_machine_and_over_tls(url: str) -> None:
    transport = httpx.MockTransport(
        lambda request: httpx.Response(200, json=job(description=request.headers["authorization"]))
    )
    with NemoClient(base_url=url, workspace="default", auth=TOKEN, transport=transport) as client:
        assert client.jobs.get_job(name=NAME).data().description == f"Bearer {TOKEN}"


def test_without_a_token_cleartext_is_allowed() -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=job()))
    with NemoClient(base_url="http://service.example", workspace="default", transport=transport) as client:
        client.jobs.get_job(name=NAME)


def test_the_password_in_an_address_is_not_shown() -> None:
    url = f"http://user:hidden@127.0.0.1:{free_port()}"
    assert "hidden" not in str(asked(url))


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    service: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    service.on("GET", JOB, Answer(job()))
    with NemoClient(base_url=service.base_url, workspace="default") as client:
        assert client.jobs.get_job(name=NAME).data().name == NAME
