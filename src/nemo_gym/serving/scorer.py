"""How likely a GGUF model finds the tokens of a prompt, by functions of llama.cpp that its server leaves out.

They are called in the library that ``xllamacpp`` brings along, by the C interface of ``llama.h``. Two of its
structures are passed whole and are read here only where their first numbers are known, which is checked.
"""

from __future__ import annotations

import ctypes
import heapq
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_gym.errors import ConfigError, GymError

_WORDS = 256
_FIRST_DEFAULTS = (512, 2048, 512, 1)
"""Tokens of context, of a batch and of a part of it, and sequences: how ``llama_context_params`` begins."""
_LONGEST_PIECE = 512
_I32, _POINTER, _TEXT = ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p


class TooLongError(GymError):
    """A prompt has more tokens than the context."""


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """One token and how likely the model found it there."""

    token: int
    text: str
    value: float | None
    """Natural logarithm of its probability; ``None`` for the first one, which nothing precedes."""
    likeliest: list[tuple[int, float]]
    """The likeliest tokens there, best first, with their values; empty for the first one."""


class _Opaque(ctypes.Structure):
    """Parameters of the library, at least as long as they are there."""

    _fields_ = (("words", ctypes.c_uint32 * _WORDS),)


class _Batch(ctypes.Structure):
    """``llama_batch``."""

    _fields_ = (
        ("n_tokens", _I32),
        ("token", ctypes.POINTER(_I32)),
        ("embd", _POINTER),
        ("pos", ctypes.POINTER(_I32)),
        ("n_seq_id", ctypes.POINTER(_I32)),
        ("seq_id", ctypes.POINTER(ctypes.POINTER(_I32))),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    )


_LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, _TEXT, _POINTER)
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "llama_log_set": (None, [_LOG, _POINTER]),
    "llama_model_default_params": (_Opaque, []),
    "llama_context_default_params": (_Opaque, []),
    "llama_model_load_from_file": (_POINTER, [_TEXT, _Opaque]),
    "llama_init_from_model": (_POINTER, [_POINTER, _Opaque]),
    "llama_set_n_threads": (None, [_POINTER, _I32, _I32]),
    "llama_model_get_vocab": (_POINTER, [_POINTER]),
    "llama_model_chat_template": (_TEXT, [_POINTER, _TEXT]),
    "llama_vocab_n_tokens": (_I32, [_POINTER]),
    "llama_vocab_bos": (_I32, [_POINTER]),
    "llama_vocab_eos": (_I32, [_POINTER]),
    "llama_tokenize": (
        _I32,
        [_POINTER, _TEXT, _I32, ctypes.POINTER(_I32), _I32, ctypes.c_bool, ctypes.c_bool],
    ),
    "llama_token_to_piece": (_I32, [_POINTER, _I32, _TEXT, _I32, _I32, ctypes.c_bool]),
    "llama_batch_init": (_Batch, [_I32, _I32, _I32]),
    "llama_decode": (_I32, [_POINTER, _Batch]),
    "llama_get_logits_ith": (ctypes.POINTER(ctypes.c_float), [_POINTER, _I32]),
    "llama_get_memory": (_POINTER, [_POINTER]),
    "llama_memory_clear": (None, [_POINTER, ctypes.c_bool]),
}


_quiet = _LOG(lambda _level, _text, _data: None)
"""The server that runs beside this says what is wrong with a model."""


class Scorer:
    """A model in memory. One prompt is scored at a time; calls may come from several threads."""

    def __init__(self, model: Path, *, context: int, threads: int) -> None:
        """Raises `ConfigError` where the library or the model cannot be used so."""
        self.context = context
        self._lock = threading.Lock()
        self._lib = _library()
        self._lib.llama_log_set(_quiet, None)
        self._model = self._lib.llama_model_load_from_file(
            str(model).encode(), self._lib.llama_model_default_params()
        )
        if not self._model:
            raise ConfigError(f"llama.cpp could not load {model} a second time, for likelihoods")
        parameters = self._lib.llama_context_default_params()
        if tuple(parameters.words[:4]) != _FIRST_DEFAULTS:
            raise ConfigError(
                "this version of xllamacpp has another interface than the one that gives likelihoods here; "
                "install the one that is pinned, or serve without --likelihoods"
            )
        parameters.words[0] = parameters.words[1] = context
        self._context = self._lib.llama_init_from_model(self._model, parameters)
        if not self._context:
            raise ConfigError(f"there is no memory for a context of {context} tokens; lower --context")
        self._lib.llama_set_n_threads(self._context, threads, threads)
        self._vocab = self._lib.llama_model_get_vocab(self._model)
        self._size = self._lib.llama_vocab_n_tokens(self._vocab)
        self._batch = self._lib.llama_batch_init(context, 0, 1)
        template = self._lib.llama_model_chat_template(self._model, None)
        self.chat_template = template.decode(errors="replace") if template else None
        """As the model's file has it."""

    @property
    def first_token(self) -> int | None:
        """What texts begin with."""
        found: int = self._lib.llama_vocab_bos(self._vocab)
        return found if found >= 0 else None

    @property
    def last_token(self) -> int | None:
        """What texts end with."""
        found: int = self._lib.llama_vocab_eos(self._vocab)
        return found if found >= 0 else None

    def tokenize(self, text: str, *, add_special: bool = False) -> list[int]:
        """The token ids of a text; names of special tokens in it are these tokens."""
        data = text.encode(errors="replace")
        most = len(data) + 8
        found = (_I32 * most)()
        count = self._lib.llama_tokenize(self._vocab, data, len(data), found, most, add_special, True)
        return list(found[: max(0, count)])

    def text_of(self, token: int) -> str:
        """The text of one token; of half a character a replacement character."""
        piece = ctypes.create_string_buffer(_LONGEST_PIECE)
        length = self._lib.llama_token_to_piece(self._vocab, token, piece, _LONGEST_PIECE, 0, True)
        return piece.raw[: max(0, length)].decode(errors="replace")

    def score(self, tokens: Sequence[int], *, top: int = 1, more: int = 0) -> list[ScoredToken]:
        """Each token of a prompt, and with ``more`` the likeliest one after it; ``top`` likeliest for each.

        Raises `TooLongError`, and `ValueError` for a token that the model does not have.
        """
        if not tokens:
            return []
        if len(tokens) + more > self.context:
            raise TooLongError(
                f"the prompt has {len(tokens)} tokens and {self.context} fit; start with a larger --context"
            )
        if not all(0 <= token < self._size for token in tokens):
            raise ValueError(f"a token is not one of 0 to {self._size - 1}")
        with self._lock:
            self._decode(tokens)
            found = [ScoredToken(tokens[0], self.text_of(tokens[0]), None, [])]
            for at, token in enumerate(tokens[1:]):
                values, likeliest = self._values(at, top)
                found.append(ScoredToken(token, self.text_of(token), values(token), likeliest))
            if more:
                _, likeliest = self._values(len(tokens) - 1, max(top, 1))
                token, value = likeliest[0]
                found.append(ScoredToken(token, self.text_of(token), value, likeliest[:top]))
        return found

    def _decode(self, tokens: Sequence[int]) -> None:
        batch = self._batch
        batch.n_tokens = len(tokens)
        for at, token in enumerate(tokens):
            batch.token[at], batch.pos[at], batch.n_seq_id[at], batch.logits[at] = token, at, 1, 1
            batch.seq_id[at][0] = 0
        self._lib.llama_memory_clear(self._lib.llama_get_memory(self._context), True)
        status = self._lib.llama_decode(self._context, batch)
        if status:
            raise GymError(f"llama.cpp could not compute a prompt of {len(tokens)} tokens (status {status})")

    def _values(self, at: int, top: int) -> tuple[Any, list[tuple[int, float]]]:
        """What comes after the token at a place: a function from tokens to values, and the likeliest ones."""
        row: list[float] = self._lib.llama_get_logits_ith(self._context, at)[: self._size]
        highest = max(row)
        total = highest + math.log(math.fsum(map(math.exp, [one - highest for one in row])))
        if top <= 1:
            likeliest = [row.index(highest)][:top]
        else:
            likeliest = heapq.nlargest(top, range(len(row)), row.__getitem__)
        return lambda token: row[token] - total, [(token, row[token] - total) for token in likeliest]


def _library() -> Any:
    """llama.cpp with the signatures that are used. Raises `ConfigError`."""
    try:
        from xllamacpp import xllamacpp
    except ImportError as error:
        raise ConfigError(
            f"xllamacpp, which serves models, cannot be imported ({error}); pip install 'nemo-baton[serve]'"
        ) from error
    library = ctypes.CDLL(xllamacpp.__file__)
    for name, (result, parameters) in _SIGNATURES.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ConfigError(
                f"this version of xllamacpp does not show {name} of llama.cpp, which likelihoods need; "
                "install the one that is pinned, or serve without --likelihoods"
            ) from None
        function.restype, function.argtypes = result, parameters
    return library
