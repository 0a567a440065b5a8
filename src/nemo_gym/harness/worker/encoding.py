"""Texts as the token ids that are sent for likelihoods: split and cut as lm-eval's API models do it."""

from __future__ import annotations

import json
from typing import Any

from lm_eval import utils
from lm_eval.api.model import TemplateLM

from nemo_gym.harness.worker.definitions import CannotRunError, said
from nemo_gym.harness.worker.server_tokenizer import ServerTokenizer

_TOKENS_ALONE = (
    "a tokenizer stands for the model here: it gives token ids of pairs and windows, and no results"
)


def _tokenizer(name: str) -> Any:
    """That of the hub or of a folder, or as JSON the server's."""
    if name.startswith("{"):
        return ServerTokenizer(json.loads(name))
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(name)


class Encoder(TemplateLM):  # type: ignore[misc]  # no types come with lm-eval
    """A tokenizer in the place of a model: what it is asked for likelihoods it gives back as token ids."""

    def __init__(self, name: str, max_length: int) -> None:
        super().__init__()
        self._longest = max_length - 1  # one token is always generated
        try:
            self.tokenizer: Any = _tokenizer(name)
        except CannotRunError:
            raise
        except Exception as error:
            raise CannotRunError(
                f"policy_tokenizer: the tokenizer {name} cannot be read: {said(error)}"
            ) from error

    @property
    def eot_token_id(self) -> int:
        """The token that is the context of a text without one."""
        first = self.tokenizer.bos_token_id
        found: int | None = self.tokenizer.eos_token_id if first is None else first
        if found is None:
            raise CannotRunError(
                "a text without a context needs the first token of texts, which the tokenizer does not name; "
                "of the server's, start vLLM with --enable-tokenizer-info-endpoint, or set policy_tokenizer"
            )
        return found

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_how: Any) -> list[int]:
        """Without special tokens, as for lm-eval's API models."""
        ids: list[int] = self.tokenizer(
            string, add_special_tokens=bool(add_special_tokens), return_attention_mask=False
        ).input_ids
        return ids

    def pairs(self, instances: list[Any]) -> list[tuple[list[int], list[int]]]:
        """Context and continuation of each request, the context cut where both are too long."""
        return [self._cut(*pair) for pair in self.loglikelihood(instances, disable_tqdm=True)]

    def windows(self, text: str) -> list[tuple[list[int], list[int]]]:
        """The parts of a text that are scored one after the other, each with what comes before it."""
        found = utils.get_rolling_token_windows(
            token_list=self.tok_encode(text),
            prefix_token=self.prefix_token_id,
            max_seq_len=self._longest - 1,
            context_len=1,
        )
        return [self._cut(*utils.make_disjoint_window(window)) for window in found]

    def apply_chat_template(self, messages: list[dict[str, Any]], add_generation_prompt: bool = True) -> str:
        """Messages as the one text that the model's template makes of them."""
        made: str = self.tokenizer.apply_chat_template(
            messages,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
        )
        return made

    def _cut(self, context: list[int], continuation: list[int]) -> tuple[list[int], list[int]]:
        over = max(0, len(context) + len(continuation) - self._longest)
        if over >= len(context):
            raise CannotRunError(
                f"a text of {len(continuation)} tokens does not fit into max_length with anything before it"
            )
        return context[over:], continuation

    def _loglikelihood_tokens(
        self, requests: list[tuple[Any, list[int], list[int]]], **_how: Any
    ) -> list[tuple[list[int], list[int]]]:
        return [(context, continuation) for _, context, continuation in requests]

    def loglikelihood_rolling(self, *_asked: Any, **_how: Any) -> Any:
        """`TemplateLM` demands it; whole texts are split by `windows`, for which nothing is asked here."""
        raise CannotRunError(_TOKENS_ALONE)

    def generate_until(self, *_asked: Any, **_how: Any) -> Any:
        """`TemplateLM` demands it; no model is here that could answer."""
        raise CannotRunError(_TOKENS_ALONE)
