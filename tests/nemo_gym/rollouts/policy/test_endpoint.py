import socket

import pytest
from tests.mock_server import MockServer

from nemo_gym.errors import GymError
from nemo_gym.rollouts.collect import event_loop
from nemo_gym.rollouts.policy.backoff import RequestLimits
from nemo_gym.rollouts.policy.client import Endpoint, open_session
from nemo_gym.rollouts.policy.endpoint import check_servers, fingerprint
from nemo_runs.secret_refs import SecretText


def check(
    base_url, model="mock", *, key=None, wait=0.0, check_name=True, said=None, on_pause=None, others=()
):
    clock = [0.0]

    async def pause(seconds):
        clock[0] += seconds
        return on_pause(clock[0]) if on_pause else False

    async def run():
        secret = SecretText(key) if key else None
        endpoint = Endpoint(base_url, model, api_key=secret, replica_urls=tuple(others))
        async with open_session(endpoint, RequestLimits()) as session:
            return await check_servers(
                session,
                endpoint,
                wait=wait,
                check_name=check_name,
                pause=pause,
                monotonic=lambda: clock[0],
                report=(said if said is not None else []).append,
            )

    with event_loop.runner() as runner:  # the loop that a run has
        return runner.run(run())


def problem(*arguments, **options):
    with pytest.raises(GymError) as caught:
        check(*arguments, **options)
    return str(caught.value)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_server_with_the_model_is_identified():
    meta = {"n_params": 5, "size": 7}
    with MockServer(version="0.9.1", model_details={"meta": meta, "created": 1}) as server:
        model = check(server.base_url)
    assert (model.name, model.server_version) == ("mock", "0.9.1")
    assert model.fingerprint.startswith("sha256:")


def test_the_fingerprint_ignores_what_changes_with_every_start(tmp_path):
    entry = {"id": "m", "created": 1, "meta": {"n_params": 5, "size": 7}, "max_model_len": 4096}
    assert fingerprint(entry) == fingerprint(entry | {"created": 2, "max_model_len": 8192})
    assert fingerprint(entry) != fingerprint(entry | {"meta": {"n_params": 6, "size": 7}})
    assert fingerprint({"id": "m", "created": 1}) is None


def test_the_fingerprint_tells_weights_apart_by_config_and_sizes(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"1234")
    entry = {"id": "m", "root": str(tmp_path)}
    first = fingerprint(entry)
    (tmp_path / "model.safetensors").write_bytes(b"12345")
    second = fingerprint(entry)
    (tmp_path / "config.json").write_text('{"a": 1}')
    assert len({first, second, fingerprint(entry)}) == 3


def test_a_wrong_model_name_is_refused_with_what_is_served_and_the_nearest():
    with MockServer(models=["llama-3-8b", "qwen"]) as server:
        text = problem(server.base_url, "llama-3-8B")
        assert text == (
            f"policy_model_name: {server.base_url} does not serve 'llama-3-8B' (did you mean 'llama-3-8b'?); "
            "it serves 'llama-3-8b', 'qwen'."
        )
        assert check(server.base_url, "other", check_name=False).name == "other"


def test_a_key_that_is_refused_or_missing_is_said():
    with MockServer(api_key="right") as server:
        assert "not the right one" in problem(server.base_url, key="wrong-canary")
        assert "canary" not in problem(server.base_url, key="wrong-canary")
        assert "is missing" in problem(server.base_url)
        assert check(server.base_url, key="right").name == "mock"


def test_a_base_url_without_v1_is_pointed_out():
    with MockServer() as server:
        text = problem(server.base_url.removesuffix("/v1"))
        assert f"{server.base_url} has: use that" in text


def test_a_server_that_lists_nothing_is_used_and_said():
    said = []
    with MockServer(models_status=404) as server:
        assert check(server.base_url, "any", said=said).name == "any"
    assert "could not be checked" in said[0]


@pytest.mark.parametrize("body", [b"[" * 99_999, b"[" + b" " * (5 << 20) + b"]", b"\xff", b""])
def test_a_listing_that_cannot_be_read_is_none(body, monkeypatch):
    monkeypatch.setattr("tests.mock_server._Handler.do_GET", lambda handler: handler._bytes(body))
    said = []
    with MockServer() as server:
        assert check(server.base_url, "any", said=said).name == "any"
    assert "could not be checked" in said[0]


def test_nobody_there_is_one_sentence_with_the_address_after_the_whole_wait():
    url, said = f"http://127.0.0.1:{free_port()}/v1", []
    text = problem(url, wait=10.0, said=said)
    assert text == (
        f"policy_base_url: {url} cannot be reached (connection refused), tried for 10 s; "
        "start the server or pass --model-url."
    )
    assert said == [f"waiting up to 10 s for the model server: {url} cannot be reached (connection refused)."]


def test_a_server_that_comes_up_later_is_waited_for():
    port, started = free_port(), []

    def start_it(now):
        if now >= 3 and not started:
            started.append(MockServer(port).__enter__())
        return False

    try:
        assert check(f"http://127.0.0.1:{port}/v1", wait=30.0, on_pause=start_it).name == "mock"
    finally:
        for server in started:
            server.stop()


def test_a_stop_ends_the_waiting():
    assert "tried for 0 s" in problem(
        f"http://127.0.0.1:{free_port()}/v1", wait=30.0, on_pause=lambda _now: True
    )


def test_a_server_that_is_missing_is_said_and_the_others_do():
    said = []
    gone = f"http://127.0.0.1:{free_port()}/v1"
    with MockServer(version="1") as first, MockServer(version="1") as second:
        model = check(first.base_url, others=[gone, second.base_url], said=said)
    assert model.server_version == "1"
    assert len(said) == 1
    assert gone in said[0]
    assert "begins with the other servers" in said[0]


def test_no_server_of_several_or_a_wrong_key_is_refused_as_with_one():
    gone = [f"http://127.0.0.1:{free_port()}/v1" for _ in range(2)]
    assert gone[0] in problem(gone[0], others=gone[1:])
    with MockServer() as first, MockServer(api_key="right") as second:
        assert "policy_api_key" in problem(first.base_url, others=[second.base_url])


def test_servers_of_two_models_are_refused():
    with MockServer(version="1") as first, MockServer(version="2") as second:
        assert "another model" in problem(first.base_url, others=[second.base_url])
