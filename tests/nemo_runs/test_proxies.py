"""Which proxy is used: the variables in all their spellings, what is left out, what cannot be one."""

import pytest

from nemo_runs.proxies import Proxy, ProxyError, chosen, is_this_machine

FAR = "http://models.example:8000/v1"


@pytest.mark.parametrize(
    ("environ", "url", "variable"),
    [
        ({"http_proxy": "http://p:3128"}, "http://p:3128", "http_proxy"),
        ({"HTTP_PROXY": "http://p:3128"}, "http://p:3128", "HTTP_PROXY"),
        ({"http_proxy": "p:3128"}, "http://p:3128", "http_proxy"),
        ({"http_proxy": "127.0.0.1:9"}, "http://127.0.0.1:9", "http_proxy"),
        ({"http_proxy": "me:pw@p:3128"}, "http://me:pw@p:3128", "http_proxy"),
        ({"http_proxy": " https://p:3128 "}, "https://p:3128", "http_proxy"),
        ({"ALL_PROXY": "p:1"}, "http://p:1", "ALL_PROXY"),
        ({"all_proxy": "http://a:1", "http_proxy": "http://p:1"}, "http://p:1", "http_proxy"),
        ({"ALL_PROXY": "socks://127.0.0.1:1080/", "http_proxy": "p:1"}, "http://p:1", "http_proxy"),
        ({"http_proxy": "http://small:1", "HTTP_PROXY": "http://big:1"}, "http://small:1", "http_proxy"),
    ],
)
def test_a_proxy_is_read_as_curl_reads_it(environ, url, variable):
    assert chosen(FAR, environ) == Proxy(url, variable)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"http_proxy": ""},
        {"http_proxy": "", "HTTP_PROXY": "http://p:1", "all_proxy": "http://a:1"},
        {"https_proxy": "http://p:1"},
        {"HTTP_PROXY": "http://stranger:1", "REQUEST_METHOD": "GET"},
    ],
)
def test_no_proxy_is_used_where_none_is_meant(environ):
    assert chosen(FAR, environ) is None


@pytest.mark.parametrize(
    ("left_out", "used"),
    [
        ("*", False),
        ("models.example", False),
        ("example", False),
        (".example", False),
        ("*.example", False),
        ("MODELS.EXAMPLE", False),
        ("a, b models.example", False),
        ("models.example:8000", False),
        ("models.example:8001", True),
        ("odels.example", True),
        ("models.example.org", True),
        ("", True),
        (",", True),
    ],
)
@pytest.mark.parametrize("variable", ["no_proxy", "NO_PROXY"])
def test_what_no_proxy_names_is_left_out(variable, left_out, used):
    found = chosen(FAR, {"all_proxy": "p:1", variable: left_out})
    assert (found is not None) is used


@pytest.mark.parametrize(
    ("host", "left_out", "used"),
    [
        ("10.1.2.3", "10.1.2.3", False),
        ("10.1.2.3", "10.0.0.0/8", False),
        ("10.1.2.3", "192.168.0.0/16,10.1.0.0/16", False),
        ("11.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", "2.3", True),
        ("[fd00::1]", "fd00::/8", False),
        ("[fd00::1]", "[fd00::1]", False),
        ("[fd00::1]", "[fd00::1]:8000", False),
        ("[fd00::1]", "[fd00::1]:1", True),
        ("[fd00::1]", "fd00:0::1", False),
    ],
)
def test_addresses_and_networks_are_left_out_as_such(host, left_out, used):
    found = chosen(f"http://{host}:8000/v1", {"http_proxy": "p:1", "no_proxy": left_out})
    assert (found is not None) is used


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "127.0.0.1",
        "127.8.9.1",
        "127.1",
        "[::1]",
        "0.0.0.0",
        "[::ffff:127.0.0.1]",
        "ip6-localhost",
    ],
)
def test_this_machine_is_never_reached_through_a_proxy(host):
    environ = {"http_proxy": "socks://p:1", "all_proxy": "nonsense at all"}
    assert chosen(f"http://{host}:8000", environ) is None


def test_a_name_that_only_looks_like_this_machine_is_far_away():
    assert not any(is_this_machine(name) for name in ("127.0.0.1.example", "localhost.example", "128.0.0.1"))


@pytest.mark.parametrize("kind", ["socks", "socks4", "socks5", "socks5h", "ftp"])
@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])
def test_a_kind_that_cannot_be_used_is_named_with_its_variable_and_the_way_out(kind, variable):
    with pytest.raises(ProxyError) as caught:
        chosen(FAR, {variable: f"{kind}://me:canary@127.0.0.1:9"})
    said = str(caught.value)
    assert said.startswith(
        f"{variable}: a proxy of the kind {kind}:// cannot be used here; set the variable to "
    )
    assert "no_proxy" in said
    assert "canary" not in said


@pytest.mark.parametrize(
    "text", ["http://", "://", "http://[::1", "h:99999", "h:0", "two words:1", "http://h:x"]
)
def test_what_is_no_address_is_said_without_repeating_it(text):
    with pytest.raises(
        ProxyError, match=r"^http_proxy: this variable holds no address such as http://HOST:PORT$"
    ):
        chosen(FAR, {"http_proxy": text})
