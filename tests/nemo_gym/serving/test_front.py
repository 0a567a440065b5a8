"""What `gym serve --likelihoods` answers itself, and that all else goes to the server behind it."""

from __future__ import annotations

import asyncio
import itertools
import math
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from nemo_gym.rollouts.policy import likelihoods
from nemo_gym.serving.front import Front
from nemo_gym.serving.scorer import ScoredToken, TooLongError


class Letters:
    """A model whose tokens are letters, of which the next one in the alphabet is the likeliest."""

    context = 8
    first_token, last_token = None, 122
    chat_template = "{{ messages }}"

    def tokenize(self, text: str, *, add_special: bool = False) -> list[int]:
        return [*([0] if add_special else []), *map(ord, text)]

    def text_of(self, token: int) -> str:
        return chr(token)

    def score(self, tokens: list[int], *, top: int = 1, more: int = 0) -> list[ScoredToken]:
        if len(tokens) + more > self.context:
            raise TooLongError("too long")
        found = [ScoredToken(tokens[0], chr(tokens[0]), None, [])]
        for before, token in itertools.pairwise(tokens):
            likeliest = [(before + 1, math.log(0.5))][:top]
            value = math.log(0.5 if token == before + 1 else 0.01)
            found.append(ScoredToken(token, chr(token), value, likeliest))
        last = tokens[-1] + 1
        return [*found, *[ScoredToken(last, chr(last), math.log(0.5), [(last, math.log(0.5))])] * more]


async def _behind(request: web.Request) -> web.StreamResponse:
    reply = web.StreamResponse(headers={"x-from": "behind"})
    await reply.prepare(request)
    await reply.write(f"{request.method} {request.rel_url} ".encode())
    await reply.write(await request.read())
    return reply


def ask(*requests: tuple[str, str, Any], key: str | None = None, with_key: str | None = None) -> list[Any]:
    """Status and JSON, or text, of each answer."""

    async def run() -> list[Any]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", _behind)
        async with TestServer(application) as behind:
            front = Front(Letters(), str(behind.make_url("/")), model_name="m", api_key=key)  # type: ignore[arg-type]
            headers = {"Authorization": f"Bearer {with_key}"} if with_key else {}
            async with TestClient(TestServer(front.application())) as client:
                found = []
                for method, path, body in requests:
                    async with client.request(method, path, json=body, headers=headers) as answer:
                        kind = answer.content_type == "application/json"
                        found.append((answer.status, await (answer.json() if kind else answer.text())))
                return found

    return asyncio.run(run())


def completion(prompt: Any, **more: Any) -> tuple[str, str, Any]:
    body = {"model": "m", "prompt": prompt, "max_tokens": 1, "echo": True, "logprobs": 1}
    return "POST", "/v1/completions", {**body, **more}


def test_the_answer_is_what_our_client_reads_likelihoods_of():
    sent = likelihoods.request_body("m", [97, 98, 100])
    [(status, answer)] = ask(("POST", "/v1/completions", sent))
    assert status == 200
    found = likelihoods.read(answer, context=1, tokens=3)
    assert (found.value, found.greedy) == (pytest.approx(math.log(0.5) + math.log(0.01)), False)
    assert (found.input_tokens, found.output_tokens) == (3, 1)
    assert likelihoods.read(answer, context=1, tokens=2).greedy


def test_places_in_the_text_and_likeliest_tokens_are_those_of_the_completions_api():
    [(_, answer)] = ask(completion([97, 98, 100]))
    [choice] = answer["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("abde", "length")
    assert choice["logprobs"]["tokens"] == ["a", "b", "d", "e"]
    assert choice["logprobs"]["text_offset"] == [0, 1, 2, 3]
    assert choice["logprobs"]["top_logprobs"][0] is None
    assert set(choice["logprobs"]["top_logprobs"][2]) == {"c", "d"}


def test_a_text_and_several_prompts_are_taken_too():
    answers = ask(
        completion("ab", max_tokens=0), completion(["ab", "c"]), completion([[97], [98, 99]], logprobs=0)
    )
    assert [choice["text"] for choice in answers[0][1]["choices"]] == ["\0ab"]
    assert [choice["index"] for choice in answers[1][1]["choices"]] == [0, 1]
    assert [choice["text"] for choice in answers[2][1]["choices"]] == ["ab", "bcd"]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (completion(""), "prompt: a text or token ids"),
        (completion([]), "prompt: a text or token ids"),
        (completion([1.5]), "prompt: a text or token ids"),
        (completion("a", max_tokens=5), "max_tokens 0 or 1"),
        (completion("a", stream=True), "not as a stream"),
        (completion("a", logprobs=True), "logprobs: a number"),
        (completion("a" * 9), "too long"),
        (("POST", "/tokenize", ["a"]), "not a JSON object"),
    ],
)
def test_what_cannot_be_answered_is_said(request_: tuple[str, str, Any], words: str):
    [(status, answer)] = ask(request_)
    assert status == 400
    assert words in answer["error"]["message"]


def test_the_key_is_asked_for_here_too():
    for path in ("/v1/completions", "/tokenize", "/tokenizer_info"):
        method = "GET" if path.endswith("info") else "POST"
        assert ask((method, path, {"prompt": "a"}), key="k", with_key="no")[0][0] == 401
    assert ask(("POST", "/tokenize", {"prompt": "a"}), key="k", with_key="k")[0][0] == 200


def test_tokens_are_given_as_vllm_does():
    answers = ask(
        ("POST", "/tokenize", {"prompt": "ab", "add_special_tokens": False}),
        ("POST", "/tokenize", {"prompt": "ab"}),
        ("GET", "/tokenizer_info", None),
    )
    assert answers[0][1] == {"count": 2, "max_model_len": 8, "tokens": [97, 98]}
    assert answers[1][1]["tokens"] == [0, 97, 98]
    assert (answers[2][1]["bos_token"], answers[2][1]["eos_token"]) == (None, "z")


def test_all_else_goes_to_the_server_behind():
    answers = ask(
        ("GET", "/v1/models?a=b", None),
        ("POST", "/v1/completions", {"prompt": "a"}),
        ("POST", "/tokenize", {"content": "a"}),
    )
    assert answers[0][1].startswith("GET /v1/models?a=b")
    assert answers[1][1] == 'POST /v1/completions {"prompt": "a"}'
    assert answers[2][1] == 'POST /tokenize {"content": "a"}'
