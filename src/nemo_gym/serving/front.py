"""The server of `gym serve --likelihoods`: before llama.cpp's, which answers all that is not answered here.

Answered here, as vLLM does: ``/v1/completions`` with ``echo`` and ``logprobs``, ``/tokenize`` of a ``prompt``
and ``/tokenizer_info``. They ask for the same API key as the rest.
"""

from __future__ import annotations

import asyncio
import hmac
import time
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import aiohttp
import orjson
from aiohttp import web

from nemo_gym.serving.scorer import ScoredToken, Scorer, TooLongError

LONGEST_REQUEST: Final = 64 << 20
"""Bytes of a body."""
MOST_LIKELIEST: Final = 20
"""How many likeliest tokens a request may ask for at each place."""
_NOT_PASSED_ON = frozenset({"connection", "host", "keep-alive", "transfer-encoding", "content-length"})
_Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _RefusedError(Exception):
    """A request that cannot be answered; its words go to the client."""


class Front:
    """The routes, over the address of llama.cpp's server."""

    def __init__(self, scorer: Scorer, behind: str, *, model_name: str, api_key: str | None) -> None:
        self._scorer = scorer
        self._behind = behind.rstrip("/")
        self._model_name = model_name
        self._key = api_key
        self._one_at_a_time = ThreadPoolExecutor(1, "likelihoods")

    def application(self) -> web.Application:
        """The application, its client session open as long as it runs."""
        application = web.Application(client_max_size=LONGEST_REQUEST)
        application.router.add_post("/v1/completions", self._checked(self._completions))
        application.router.add_post("/completions", self._checked(self._completions))
        application.router.add_post("/tokenize", self._checked(self._tokenize))
        application.router.add_get("/tokenizer_info", self._checked(self._tokenizer_info))
        application.router.add_route("*", "/{path:.*}", self._pass_on)
        application.cleanup_ctx.append(self._session)
        return application

    async def _session(self, _application: web.Application) -> Any:
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False
        ) as self._client:
            yield

    def _checked(self, reply: _Reply) -> _Reply:
        async def checked(request: web.Request) -> web.StreamResponse:
            given = request.headers.get("Authorization", "").encode()
            if self._key is not None and not hmac.compare_digest(given, f"Bearer {self._key}".encode()):
                return _error(401, "Invalid API Key", "authentication_error")
            try:
                return await reply(request)
            except (_RefusedError, TooLongError, ValueError) as error:
                return _error(400, str(error), "invalid_request_error")

        return checked

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        body = await _body(request)
        if not body.get("echo") or body.get("logprobs") is None:
            return await self._pass_on(request)
        prompts, top, more = self._asked(body)
        choices, sent, made = [], 0, 0
        for index, prompt in enumerate(prompts):
            tokens = self._scorer.tokenize(prompt, add_special=True) if isinstance(prompt, str) else prompt
            found = await self._scored(tokens, top, more)
            choices.append(_choice(index, found, self._scorer, len(tokens)))
            sent, made = sent + len(tokens), made + len(found) - len(tokens)
        return _document(
            {
                "id": f"cmpl-{uuid.uuid4().hex}",
                "object": "text_completion",
                "created": int(time.time()),
                "model": self._model_name,
                "choices": choices,
                "usage": {"prompt_tokens": sent, "completion_tokens": made, "total_tokens": sent + made},
            }
        )

    def _asked(self, body: dict[str, Any]) -> tuple[list[str | list[int]], int, int]:
        """The prompts, how many likeliest tokens at each place, and how many tokens after each prompt."""
        top, more = body["logprobs"], body.get("max_tokens", 16)
        if type(top) is bool or not isinstance(top, int) or not 0 <= top <= MOST_LIKELIEST:
            raise _RefusedError(f"logprobs: a number from 0 to {MOST_LIKELIEST}")
        if more not in (0, 1) or body.get("stream"):
            raise _RefusedError("echo: only with max_tokens 0 or 1, and not as a stream")
        prompt = body.get("prompt")
        several = isinstance(prompt, list) and prompt and not isinstance(prompt[0], int)
        prompts: list[Any] = list(prompt) if isinstance(prompt, list) and several else [prompt]
        if not all(_is_prompt(one) for one in prompts):
            raise _RefusedError("prompt: a text or token ids that are not empty, or a list of such")
        return prompts, top, int(more)

    async def _scored(self, tokens: list[int], top: int, more: int) -> list[ScoredToken]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._one_at_a_time, lambda: self._scorer.score(tokens, top=top, more=more)
        )

    async def _tokenize(self, request: web.Request) -> web.StreamResponse:
        body = await _body(request)
        if not isinstance(body.get("prompt"), str):
            return await self._pass_on(request)
        tokens = self._scorer.tokenize(
            body["prompt"], add_special=body.get("add_special_tokens", True) is not False
        )
        return _document({"count": len(tokens), "max_model_len": self._scorer.context, "tokens": tokens})

    async def _tokenizer_info(self, _request: web.Request) -> web.StreamResponse:
        first, last = self._scorer.first_token, self._scorer.last_token
        return _document(
            {
                "tokenizer_class": "llama.cpp",
                "bos_token": None if first is None else self._scorer.text_of(first),
                "eos_token": None if last is None else self._scorer.text_of(last),
                "chat_template": self._scorer.chat_template,
            }
        )

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        headers = {
            name: value for name, value in request.headers.items() if name.lower() not in _NOT_PASSED_ON
        }
        address = f"{self._behind}{request.rel_url}"
        data = await request.read()
        try:
            async with self._client.request(request.method, address, headers=headers, data=data) as answer:
                reply = web.StreamResponse(status=answer.status)
                for name, value in answer.headers.items():
                    if name.lower() not in _NOT_PASSED_ON:
                        reply.headers[name] = value
                await reply.prepare(request)
                async for part in answer.content.iter_any():
                    await reply.write(part)
                await reply.write_eof()
                return reply
        except aiohttp.ClientConnectionError as error:
            return _error(502, f"llama.cpp's server gave no answer: {error}", "server_error")


async def _body(request: web.Request) -> dict[str, Any]:
    body = orjson.loads(await request.read())
    if not isinstance(body, dict):
        raise _RefusedError("the body is not a JSON object")
    return body


def _is_prompt(prompt: object) -> bool:
    if isinstance(prompt, str):
        return prompt != ""
    return isinstance(prompt, list) and prompt != [] and all(type(token) is int for token in prompt)


def _choice(index: int, found: list[ScoredToken], scorer: Scorer, prompted: int) -> dict[str, Any]:
    offsets, length = [], 0
    for one in found:
        offsets.append(length)
        length += len(one.text)
    logprobs = {
        "tokens": [one.text for one in found],
        "token_logprobs": [one.value for one in found],
        "top_logprobs": [None if one.value is None else _likeliest(one, scorer) for one in found],
        "text_offset": offsets,
    }
    text = "".join(one.text for one in found)
    reason = "length" if len(found) > prompted else "stop"
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}


def _likeliest(one: ScoredToken, scorer: Scorer) -> dict[str, float]:
    """The likeliest tokens and the one that is there, by their text, or by number where two look alike."""
    assert one.value is not None
    found = {one.text: one.value}
    for token, value in one.likeliest:
        if token != one.token:
            text = scorer.text_of(token)
            found[text if text not in found else f"token_id:{token}"] = value
    return found


def _document(value: dict[str, Any], status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json")


def _error(status: int, message: str, kind: str) -> web.Response:
    return _document({"error": {"code": status, "message": message, "type": kind}}, status)
