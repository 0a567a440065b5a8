import asyncio
import json
import socket

import pytest
from tests.mock_server import MockServer

from nemo_gym.errors import ConfigError
from nemo_gym.rollouts.collect import event_loop
from nemo_gym.rollouts.policy.backoff import RequestLimits
from nemo_gym.rollouts.policy.client import (
    Endpoint,
    HttpPolicy,
    PolicyError,
    open_session,
    proxy_for,
)
from nemo_gym.rollouts.policy.http_body import parsed_json
from nemo_gym.rollouts.policy.notices import Retries
from nemo_gym.types import answer_end, is_truncated, output_text, reasoning_text
from nemo_runs.secret_refs import SecretText

ASK = {"input": [{"role": "user", "content": "What is 7 + 5?"}]}


def ask(server, *, times=1, key=None, api="chat", pause=None, said=None, base_url=None, params=ASK, **limits):
    """Ask one after the other over one session; the answers."""
    delays = []

    async def no_pause(seconds):
        delays.append(seconds)
        return False

    async def run():
        bounds = RequestLimits(**({"timeout": 5.0, "attempts": 3} | limits))
        endpoint = Endpoint(base_url or server.base_url, "mock", api=api, api_key=key)
        retries = Retries((said if said is not None else []).append)
        async with open_session(endpoint, bounds) as session:
            policy = HttpPolicy(session, endpoint, bounds, retries=retries, pause=pause or no_pause)
            return [await policy.respond(params) for _ in range(times)], retries, delays

    with event_loop.runner() as runner:  # the loop that a run has
        return runner.run(run())


def refused(server, **arguments):
    with pytest.raises(PolicyError) as caught:
        ask(server, **arguments)
    return caught.value


@pytest.mark.parametrize("api", ["chat", "completions", "responses"])
def test_every_api_gives_the_same_answer(api):
    with MockServer() as server:
        answers, _, _ = ask(server, api=api)
    assert output_text(answers[0]) == "7 + 5 = 12"
    assert answers[0]["usage"]["output_tokens"] == 3


@pytest.mark.parametrize("api", ["chat", "completions", "responses"])
def test_a_truncated_answer_is_recognised_in_every_api(api):
    with MockServer(faults=["length"]) as server:
        answers, _, _ = ask(server, api=api)
    assert is_truncated(answers[0])


@pytest.mark.parametrize("fault", ["500", "503", "429", "garbage", "empty", "cut", "drop"])
def test_a_passing_fault_is_retried_and_told_once(fault):
    said = []
    with MockServer(faults=[fault, "", fault]) as server:
        answers, retries, _ = ask(server, times=2, said=said)
        assert server.requests == 4
    assert [output_text(answer) for answer in answers] == ["7 + 5 = 12"] * 2
    assert len(said) == 1
    assert server.base_url in said[0]
    assert retries.total == 2
    assert "2 requests were sent again" in retries.sentence()


def test_retry_after_is_waited_for():
    with MockServer(faults=["429:7"]) as server:
        _, _, delays = ask(server)
    assert 7.0 <= delays[0] <= 7.5


@pytest.mark.parametrize(
    ("fault", "kind", "requests"),
    [
        ("500*", "provider_unavailable", 3),
        ("429*", "provider_quota_exhausted", 3),
        ("garbage*", "agent_request_failed", 3),
        ("drop*", "transport_peer_drop", 4),  # the first one is free
        ("400*", "agent_run_error", 1),
    ],
)
def test_tries_are_bounded_and_the_last_error_tells_its_kind(fault, kind, requests):
    with MockServer(faults=[fault]) as server:
        error = refused(server)
        assert server.requests == requests
    assert error.kind == kind


def test_a_hanging_server_costs_two_timeouts():
    with MockServer(faults=["hang*"]) as server:
        error = refused(server, timeout=0.2, attempts=5)
        assert server.requests == 2
    assert error.kind == "transport_timeout"
    assert "0.2 s" in str(error)


def test_a_connection_that_was_closed_while_idle_is_no_failed_try():
    with MockServer(faults=["", "drop"]) as server:
        answers, _, delays = ask(server, times=2, attempts=1)
    assert len(answers) == 2
    assert delays == []


def test_nobody_there_is_unreachable_and_names_the_address():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        error = refused(None, base_url=url)
    assert error.kind == "transport_unreachable"
    assert str(error) == f"{url}/chat/completions cannot be reached (connection refused)."


def test_a_stop_ends_the_waiting_between_tries():
    async def stopped(_seconds):
        return True

    with MockServer(faults=["503*"]) as server:
        assert refused(server, pause=stopped, attempts=5).http_status == 503
        assert server.requests == 1


def test_the_api_key_is_sent_and_never_repeated():
    key = SecretText("canary-4711-secret")
    with MockServer(api_key="canary-4711-secret") as server:
        ask(server, key=key)
    with MockServer(faults=["echo-key"]) as server:
        error = refused(server, key=key)
    assert error.http_status == 401
    assert "canary" not in str(error) + error.body + repr(Endpoint("http://x", "m", api_key=key))
    assert "***" in error.body


def test_credentials_in_an_address_are_not_shown():
    assert Endpoint("http://user:pw@host:1/v1?key=s", "m").shown == "http://host:1/v1"


def test_a_proxy_is_looked_up_once_and_not_for_addresses_that_bypass_it(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    assert proxy_for("http://127.0.0.1:8000/v1") is None
    monkeypatch.delenv("no_proxy")
    assert proxy_for("http://localhost:8000/v1") is None
    assert proxy_for("http://models.example/v1") == "http://proxy:3128"


@pytest.mark.parametrize(
    "proxy",
    [
        "me:can ary@h",
        "http://",
        "socks5://me:canary@h:1",
        "http://me:canary@[::1",
        "http://me:canary@h:99999",
    ],
)
def test_a_proxy_that_is_no_address_is_refused_without_repeating_it(monkeypatch, proxy):
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(ConfigError, match=r"^http_proxy: ") as caught:
        proxy_for("http://models.example/v1")
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(("scheme", "status"), [("https", "999"), ("http", "407")])
def test_the_password_of_a_proxy_is_in_no_message(monkeypatch, scheme, status):
    monkeypatch.setattr(
        "tests.mock_server._Handler.do_CONNECT", lambda handler: handler._json({}, 999), raising=False
    )
    with MockServer(faults=[status]) as proxy:
        monkeypatch.setenv(f"{scheme}_proxy", f"http://me:canary@127.0.0.1:{proxy.port}")
        error = refused(None, base_url=f"{scheme}://models.invalid/v1", attempts=1)
    assert status in str(error)
    assert "canary" not in f"{error} {error.body}"


def test_a_proxy_that_is_not_there_is_told_apart_from_the_server(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://me:canary@127.0.0.1:1")
    error = refused(None, base_url="http://models.invalid/v1", attempts=1)
    assert "the proxy of http_proxy for http://models.invalid/v1" in str(error)
    assert "canary" not in str(error)


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (b'{"a": NaN, "b": [-Infinity]}', {"a": None, "b": [None]}),
        (b'{"a": "x\\ud83d"}', {"a": "x?"}),
        (b'{"a": "\xff"}', {"a": "\ufffd"}),
        (b'{"a": NaN, "b": [1e400, %b]}' % (b"9" * 9999), {"a": None, "b": [None, None]}),
    ],
)
def test_what_python_servers_send_besides_json_is_read(sent, read):
    assert parsed_json(sent) == read


def test_what_is_no_json_is_refused():
    with pytest.raises(ValueError, match="Expecting value"):
        parsed_json(b"<html>")
    with pytest.raises(ValueError, match="nested too deeply"):
        parsed_json(b"[" * 99_999)


def test_an_answer_without_end_is_given_up_early_and_not_held_in_memory():
    with MockServer(faults=["flood"]) as server:
        error = refused(server, attempts=1, timeout=60.0)
    assert "more than 16 MiB" in str(error)


def test_of_an_endless_error_only_the_beginning_is_read():
    with MockServer(faults=["flood:500"]) as server:
        error = refused(server, attempts=1, timeout=60.0)
    assert (error.http_status, len(error.body)) == (500, 2000)


# Answers that are none, and errors that come as answers


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_half_an_answer_with_an_error_is_asked_again(api):
    with MockServer(faults=["end:error"]) as server:
        answers, retries, _ = ask(server, api=api)
    assert output_text(answers[0]) == "7 + 5 = 12"
    assert retries.total == 1


@pytest.mark.parametrize(
    ("error", "kind", "status", "requests"),
    [
        ({"code": 502, "message": "Provider lost"}, "provider_unavailable", 502, 3),
        ({"code": "429", "message": "Provider lost"}, "provider_quota_exhausted", 429, 3),
        ({"code": "server_error", "message": "Provider lost"}, "provider_unavailable", 502, 3),
        ({"message": "Provider lost"}, "agent_request_failed", 200, 3),
        ("Provider lost", "agent_request_failed", 200, 3),
        ({"code": 400, "message": "Provider lost"}, "agent_run_error", 400, 1),
        ({"code": "insufficient_quota", "message": "Provider lost"}, "provider_quota_exhausted", 429, 1),
    ],
)
def test_an_error_inside_a_200_is_a_failed_try_in_the_providers_words(error, kind, status, requests):
    body = "json:" + json.dumps({"id": None, "choices": None, "error": error}) + "*"
    with MockServer(faults=[body]) as server:
        found = refused(server)
        assert server.requests == requests
    assert (found.kind, found.http_status) == (kind, status)
    assert "Provider lost" in str(found)
    assert str(error["code"] if isinstance(error, dict) and "code" in error else "") in str(found)


def test_an_error_inside_a_200_does_not_repeat_the_key():
    key = SecretText("canary-4711-secret")
    body = 'json:{"error": {"message": "bad key canary-4711-secret", "code": 401}}*'
    with MockServer(faults=[body]) as server:
        found = refused(server, key=key)
    assert "canary" not in f"{found} {found.body} {found.said}"


@pytest.mark.parametrize(
    "fault",
    [
        '400={"error": {"code": "content_filter", "message": "The prompt was filtered", "status": 400}}',
        '403={"error": {"code": 403, "message": "filtered", "metadata": {"flagged_input": "x"}}}',
        'json:{"error": {"code": "content_filter", "message": "filtered"}}',
    ],
)
def test_a_question_that_a_content_filter_refuses_is_answered_by_the_filter(fault):
    with MockServer(faults=[fault]) as server:
        answers, _, _ = ask(server)
        assert server.requests == 1
    assert (answer_end(answers[0]), output_text(answers[0])) == ("content_filter", "")
    assert "filtered" in answers[0]["incomplete_details"]["message"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("text:<!doctype html><title>Sign in</title>", r"an HTML page \(Sign in\), no JSON"),
        ("text:", "nothing at all"),
        ("text:data: [DONE]\n\n", "an event stream without an answer in it"),
        ('json:{"detail": "no such deployment"}', "error inside: no such deployment"),
        ("text:hello", "malformed answer: no JSON"),
        (
            'json:{"message": {"role": "assistant", "content": "4"}}',
            "malformed answer: the answer has no 'choices'",
        ),
    ],
)
def test_an_odd_body_is_named(body, words):
    with MockServer(faults=[f"{body}*"]) as server, pytest.raises(PolicyError, match=words):
        ask(server)


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        ("encoded:gzip:plain", "gzip"),
        ("encoded:deflate:plain", "deflate"),
        ("encoded:br:plain", "br"),
        ("encoded:x-own:\x1f\x8b", "x-own"),
    ],
)
def test_an_answer_that_is_not_encoded_as_it_says_is_named_and_no_closed_connection(fault, named):
    with MockServer(faults=[f"{fault}*"]) as server:
        error = refused(server)
    assert f"cannot be decoded as its header content-encoding says ({named})" in str(error)
    assert "closed the connection" not in str(error)
    assert error.kind == "agent_request_failed"


def test_an_answer_under_an_unknown_encoding_that_can_be_read_is_read():
    plain = json.dumps({"choices": [{"message": {"content": "4"}, "finish_reason": "stop"}]})
    with MockServer(faults=[f"encoded:utf-8:{plain}"]) as server:
        (answer,), _, _ = ask(server)
    assert output_text(answer) == "4"


def test_a_byte_order_mark_before_an_answer_is_passed_over():
    body = parsed_json(b'\xef\xbb\xbf{"choices": [{"message": {"content": "4"}}]}')
    assert body["choices"][0]["message"]["content"] == "4"


def test_an_error_page_is_named_by_its_title():
    with MockServer(faults=["502=<html><title>Bad gateway</title>" + "x" * 5000 + "*"]) as server:
        assert "502: an HTML page (Bad gateway)" in str(refused(server))


def test_event_streams_are_understood():
    answer = '{"choices": [{"message": {"content": "12"}, "finish_reason": "stop"}]}'
    chunk = '{"choices": [{"delta": {"content": "12"}, "finish_reason": "stop"}]}'
    faults = [f"text:{answer}\n\ndata: [DONE]\n\n", f"text:: hi\n\ndata: {chunk}\n\ndata: [DONE]\n\n"]
    with MockServer(faults=faults) as server:
        answers, retries, _ = ask(server, times=2)
    assert [output_text(answer) for answer in answers] == ["12", "12"]
    assert retries.total == 0


@pytest.mark.parametrize("api", ["chat", "completions", "responses"])
def test_thoughts_are_kept_apart_in_every_api(api):
    with MockServer(answer="<think>13? No.</think>\n\n12") as server:
        answers, _, _ = ask(server, api=api)
    assert (output_text(answers[0]), reasoning_text(answers[0])) == ("12", "13? No.")


# What one server takes and another does not


def test_the_newer_name_of_the_token_limit_is_used_once_a_server_asks_for_it_and_that_is_said():
    said = []
    with MockServer(faults=["no-max_tokens*"]) as server:
        answers, retries, delays = ask(
            server, times=3, attempts=1, said=said, params=ASK | {"max_output_tokens": 64}
        )
        limits = [{k: v for k, v in body.items() if k.startswith("max_")} for body in server.bodies]
    assert [output_text(answer) for answer in answers] == ["7 + 5 = 12"] * 3
    assert limits == [{"max_tokens": 64}, *[{"max_completion_tokens": 64}] * 3]
    assert (retries.total, delays) == (0, [])
    assert len(said) == 1
    assert "max_output_tokens is sent as max_completion_tokens" in said[0]


def test_a_limit_that_is_too_large_is_no_request_for_another_name():
    words = "'max_tokens' or 'max_completion_tokens' is too large: 9999. The maximum context length is 4096."
    body = "400=" + json.dumps({"error": {"message": words, "code": 400}}) + "*"
    with MockServer(faults=[body]) as server:
        refused(server, params=ASK | {"max_output_tokens": 9999})
        assert server.requests == 1


def ask_of_two(first, second, rollouts, *, turns=1, said=None, **limits):
    """Ask ``turns`` questions in each of so many rollouts, one after the other, of two servers."""
    bounds = RequestLimits(**({"timeout": 5.0, "attempts": 3} | limits))
    endpoint = Endpoint(first, "mock", replica_urls=(second,))
    retries = Retries((said if said is not None else []).append)

    async def no_pause(_seconds):
        return False

    async def run():
        async with open_session(endpoint, bounds) as session:
            policy = HttpPolicy(session, endpoint, bounds, retries=retries, pause=no_pause)
            for _ in range(rollouts):
                one = policy.for_rollout()
                for _ in range(turns):
                    assert output_text(await one.respond(ASK)) == "7 + 5 = 12"

    with event_loop.runner() as runner:
        runner.run(run())
    return retries


def test_the_turns_of_a_rollout_stay_with_one_server_and_rollouts_share_all():
    with MockServer(latency=0.1) as first, MockServer(latency=0.1) as second:
        endpoint = Endpoint(first.base_url, "mock", replica_urls=(second.base_url,))
        bounds = RequestLimits(timeout=5.0)

        async def no_pause(_seconds):
            return False

        async def run():
            async with open_session(endpoint, bounds) as session:
                policy = HttpPolicy(session, endpoint, bounds, retries=Retries(print), pause=no_pause)

                async def rollout():
                    one = policy.for_rollout()
                    return [await one.respond(ASK) for _ in range(2)]

                await asyncio.gather(*(rollout() for _ in range(4)))

        with event_loop.runner() as runner:
            runner.run(run())
        assert (first.requests, second.requests) == (4, 4)


def test_a_server_that_is_gone_costs_no_try_and_is_said_once():
    said = []
    with socket.socket() as taken, MockServer() as second:
        taken.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        retries = ask_of_two(gone, second.base_url, 5, turns=2, said=said, attempts=1)
        assert second.requests == 10
    assert retries.total == 1
    told = [sentence for sentence in said if "servers fails" in sentence]
    assert len(told) == 1
    assert gone in told[0]
    assert "go to the 1 other meanwhile" in told[0]


def test_a_server_that_answers_for_a_broken_one_behind_it_is_left_out_too():
    with MockServer(faults=["503*"]) as first, MockServer() as second:
        ask_of_two(first.base_url, second.base_url, 3, attempts=1)
        assert (first.requests, second.requests) == (1, 3)


def test_an_error_of_the_request_itself_is_not_put_to_the_next_server():
    with MockServer(faults=["400*"]) as first, MockServer() as second:
        with pytest.raises(PolicyError, match="400"):
            ask_of_two(first.base_url, second.base_url, 1)
        assert (first.requests, second.requests) == (1, 0)


def test_where_all_servers_fail_the_request_fails_as_with_one():
    with MockServer(faults=["503*"]) as first, MockServer(faults=["503*"]) as second:
        with pytest.raises(PolicyError, match="503"):
            ask_of_two(first.base_url, second.base_url, 1, attempts=2)
        assert (first.requests, second.requests) == (2, 1)  # the one whose pause ends first is asked again
