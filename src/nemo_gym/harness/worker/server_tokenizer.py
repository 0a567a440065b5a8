"""The tokenizer of the server that is asked, where its files are not at hand."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from nemo_gym.harness.worker.definitions import CannotRunError

_TIMEOUT = 60.0
"""Seconds for one request."""
_REMEDY = "set policy_tokenizer to the tokenizer's name on the hub or to a folder"


@dataclass(frozen=True, slots=True)
class TokenIds:
    """What a tokenizer of transformers returns, as far as it is used."""

    input_ids: list[int]


class ServerTokenizer:
    """Asks ``/tokenize`` as vLLM has it. In the place of a tokenizer of transformers."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        """``asked``: ``server`` (an address up to ``/v1``), ``model`` and ``key``, a variable's name."""
        address = urlsplit(asked["server"])
        kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(address.netloc, timeout=_TIMEOUT)
        self._path = address.path.rstrip("/").removesuffix("/v1") + "/tokenize"
        self._model = asked["model"]
        key = os.environ.get(asked["key"] or "", "")
        self._headers = {"content-type": "application/json"}
        if key:
            self._headers["authorization"] = f"Bearer {key}"
        if not self._tokens("a", special=False):
            raise CannotRunError(f"the server gives no tokens of a text; {_REMEDY}")

    @property
    def bos_token_id(self) -> int | None:
        """What texts begin with, as far as the server says it."""
        return self._special("bos_token")

    @property
    def eos_token_id(self) -> int | None:
        """What texts end with, as far as the server says it."""
        return self._special("eos_token")

    def _special(self, name: str) -> int | None:
        """By ``/tokenizer_info``, a route that vLLM opens with an option."""
        try:
            answer = self._asked("GET", self._path.replace("/tokenize", "/tokenizer_info"))
        except (OSError, http.client.HTTPException, ValueError):
            return None
        text = answer.get(name) if isinstance(answer, dict) else None
        found = self._tokens(text, special=False) if isinstance(text, str) else []
        return found[0] if len(found) == 1 else None

    def __call__(self, text: str, *, add_special_tokens: bool, return_attention_mask: bool) -> TokenIds:
        """The token ids of a text."""
        assert not return_attention_mask
        return TokenIds(self._tokens(text, special=add_special_tokens))

    def apply_chat_template(self, *_asked: Any, **_how: Any) -> str:
        """A server gives the tokens of messages and not their text, which is divided here."""
        raise CannotRunError(f"the model's chat template is needed; {_REMEDY}")

    def _tokens(self, text: str, *, special: bool) -> list[int]:
        body = json.dumps({"model": self._model, "prompt": text, "add_special_tokens": special})
        try:
            answer = self._asked("POST", self._path, body.encode())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise CannotRunError(f"the server's tokenizer could not be asked ({error}); {_REMEDY}") from error
        found = answer.get("tokens") if isinstance(answer, dict) else None
        if not isinstance(found, list) or not all(type(token) is int for token in found):
            raise CannotRunError(f"the server has no /tokenize that gives token ids; {_REMEDY}")
        return found

    def _asked(self, method: str, path: str, body: bytes | None = None) -> Any:
        for last in (False, True):
            try:
                self._connection.request(method, path, body, self._headers)
                answer = self._connection.getresponse()
                content = answer.read()
                break
            except (http.client.RemoteDisconnected, ConnectionError):
                self._connection.close()  # a connection that was closed while it was idle
                if last:
                    raise
        return json.loads(content) if answer.status == 200 else None
