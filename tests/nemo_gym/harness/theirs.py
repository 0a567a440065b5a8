"""Run lm-eval's own loop with the answers of `answering.answer`; in the interpreter that has lm-eval.

python theirs.py FOLDER JOBS OUTPUT      JOBS is JSON: [{"task": NAME, "chat": true, …}, …]
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path

from lm_eval import evaluator, utils
from lm_eval.api.model import TemplateLM
from lm_eval.tasks import TaskManager
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

spec = importlib.util.spec_from_file_location("answering", Path(__file__).with_name("answering.py"))
answering = importlib.util.module_from_spec(spec)
spec.loader.exec_module(answering)


LONGEST = 127
"""One less than ``max_length`` of the test."""


class StandIn(TemplateLM):
    """Says the same as the server does."""

    def __init__(self, tokenizer):
        super().__init__()
        self._asked = Counter()
        self._tokenizer = tokenizer
        self.cut = 0

    def generate_until(self, requests, **_how):
        found = []
        for request in requests:
            found.append(answering.answer(request.args[0], self._asked[id(request)]))
            self._asked[id(request)] += 1
        return found

    @property
    def eot_token_id(self):
        return self._tokenizer.bos_token_id

    def tok_encode(self, string, add_special_tokens=None, **_how):
        return self._tokenizer(string, add_special_tokens=False).input_ids

    def _loglikelihood_tokens(self, requests, **_how):
        found = []
        for _, context, continuation in requests:
            tokens = (context + continuation)[-LONGEST:]
            first = len(context) - max(0, len(context) + len(continuation) - LONGEST)
            self.cut += len(tokens) < len(context + continuation)
            values, best = answering.likelihoods([*tokens, 7])
            values, best = values[first:-1], best[first:-1]
            greedy = all(value == max(top.values()) for value, top in zip(values, best, strict=False))
            found.append((sum(values), greedy))
        return found

    def loglikelihood_rolling(self, requests, **_how):
        found = []
        for request in requests:
            windows = utils.get_rolling_token_windows(
                token_list=self.tok_encode(request.args[0]),
                prefix_token=self.prefix_token_id,
                max_seq_len=LONGEST - 1,
                context_len=1,
            )
            parts = [(None, *utils.make_disjoint_window(window)) for window in windows]
            assert len(parts) > 1
            found.append(sum(value for value, _ in self._loglikelihood_tokens(parts)))
        return found

    def apply_chat_template(self, messages, add_generation_prompt=True):
        return json.dumps(messages)

    @property
    def tokenizer_name(self):
        return ""


def plain(value):
    """Arrays as lists, all else as lm-eval writes it."""
    return value.tolist() if hasattr(value, "tolist") else utils.handle_non_serializable(value)


def make_tokenizer(folder):
    """A byte-level tokenizer that merges across words and spaces as large ones do."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet)
    texts = [path.read_text() for path in sorted(Path(folder).glob("*.jsonl"))]
    made.train_from_iterator(texts, trainer)
    whole = PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>")
    whole.save_pretrained(str(Path(folder) / "tokenizer"))
    return whole


def main():
    folder, jobs, output = sys.argv[1:]
    tokenizer = make_tokenizer(folder)
    manager = TaskManager(include_path=folder, include_defaults=False)
    found = {}
    for job in json.loads(jobs):
        name, chat = job.pop("task"), job.pop("chat")
        done = evaluator.simple_evaluate(
            model=StandIn(tokenizer),
            tasks=[name],
            task_manager=manager,
            apply_chat_template=chat,
            fewshot_as_multiturn=chat,
            log_samples=True,
            bootstrap_iters=100,
            **job,
        )
        found[name] = {key: done[key] for key in ("results", "samples", "versions")}
    Path(output).write_text(json.dumps(found, default=plain))


if __name__ == "__main__":
    main()
