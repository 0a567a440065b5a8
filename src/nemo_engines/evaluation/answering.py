"""A checkpoint's model and its answers; transformers and peft are loaded here, in the evaluating process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from nemo_engines.evaluation.material import Sampling

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


class Answerer:
    """A model that answers."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        trusts, weights = bool(order["trust_remote_code"]), str(order["weights"])
        origin = str(order["model"]) if order["adapter"] else weights
        self._device = str(order["device"])
        options = {"dtype": _DTYPES[order["precision"]], "trust_remote_code": trusts}
        model = AutoModelForCausalLM.from_pretrained(origin, **options)
        if order["adapter"]:
            from peft import PeftModel  # noqa: PLC0415 - adapters alone need it

            model = PeftModel.from_pretrained(model, weights)
        self._model = model.to(self._device).eval()
        self._tokenizer = AutoTokenizer.from_pretrained(str(order["model"]), trust_remote_code=trusts)
        self._ends = self._end_tokens()

    def answers(
        self, prompts: Sequence[Sequence[Mapping[str, Any]]], sampling: Sampling, *, seed: int
    ) -> list[tuple[str, bool]]:
        """The answer to each prompt, and whether the limit of tokens cut it; the same for the same seed."""
        asked = [self._tokens(messages) for messages in prompts]
        longest = max(map(len, asked))
        padding = self._ends[0] if self._tokenizer.pad_token_id is None else self._tokenizer.pad_token_id
        ids = [[padding] * (longest - len(one)) + one for one in asked]
        mask = [[0] * (longest - len(one)) + [1] * len(one) for one in asked]
        torch.manual_seed(seed)
        drawn = sampling.temperature > 0
        with torch.inference_mode():
            made = self._model.generate(
                input_ids=torch.tensor(ids, device=self._device),
                attention_mask=torch.tensor(mask, device=self._device),
                max_new_tokens=sampling.max_new_tokens,
                do_sample=drawn,
                temperature=sampling.temperature if drawn else None,
                top_p=sampling.top_p if drawn else None,
                top_k=None,
                num_beams=1,
                pad_token_id=padding,
                eos_token_id=self._ends,
            )
        return [self._answer(row[longest:], sampling) for row in made.tolist()]

    def _tokens(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        if self._tokenizer.chat_template is None:
            text = "\n".join(str(message["content"]) for message in messages)
            return list(self._tokenizer(text)["input_ids"])
        text = self._tokenizer.apply_chat_template(
            [dict(message) for message in messages], tokenize=False, add_generation_prompt=True
        )
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _answer(self, tokens: list[int], sampling: Sampling) -> tuple[str, bool]:
        end = next((place for place, token in enumerate(tokens) if token in self._ends), None)
        text = self._tokenizer.decode(tokens[:end], skip_special_tokens=True)
        places = [place for word in sampling.stop if (place := text.find(word)) >= 0]
        return (text[: min(places)], False) if places else (text, end is None)

    def _end_tokens(self) -> list[int]:
        found = getattr(self._model.generation_config, "eos_token_id", None)
        tokens = [found] if isinstance(found, int) else list(found or [])
        own = self._tokenizer.eos_token_id
        return [*dict.fromkeys([*tokens, *([own] if own is not None else [])])] or [0]
