"""Options of lm-evaluation-harness, Inspect and others that people type, and what says the same here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

_ADDRESS: Final = "--model-url URL, with its /v1"
_AT_ONCE: Final = "--concurrency N"
_REPEATS: Final = "--num-repeats N"
_ROWS: Final = "--input FILE"
_GRADING: Final = "--verifier TYPE"
_RESULTS: Final = "--output FILE, a file of rows"
_TASKS: Final = "--benchmark lm_eval/NAME; several benchmarks, or models, in one run are `gym eval submit`"
_MEANT: Final[Mapping[str, str]] = {
    **dict.fromkeys(("task", "tasks"), _TASKS),
    "models": "`gym eval submit`, whose file names several",
    **dict.fromkeys(("dataset", "dataset_path", "data", "data_file", "file", "questions"), _ROWS),
    **dict.fromkeys(("base_url", "model_base_url", "api_base", "endpoint", "url"), _ADDRESS),
    **dict.fromkeys(("batch_size", "num_concurrent", "max_connections", "parallel", "workers"), _AT_ONCE),
    **dict.fromkeys(("epochs", "n_repeats", "repeats", "num_samples", "n", "k"), _REPEATS),
    **dict.fromkeys(("output_path", "output_dir", "log_dir", "save_dir", "out"), _RESULTS),
    **dict.fromkeys(("scorer", "metric", "metrics", "grader"), _GRADING),
    **dict.fromkeys(("use_cache", "cache_requests", "continue"), "--resume"),
    **dict.fromkeys(("system_message", "system_prompt", "system"), "benchmark.prompt.system=TEXT"),
    **dict.fromkeys(("max_tokens", "max_new_tokens", "max_gen_toks"), "--max-output-tokens N"),
    **dict.fromkeys(("max_samples", "num_examples", "num_questions"), "--limit N"),
    "model_args": "--model NAME and --model-url URL; the tokenizer is policy_tokenizer=NAME",
    "api_key": "--model-api-key host:VARIABLE",
    "num_fewshot": "benchmark.lm_eval.num_fewshot=N, of other benchmarks benchmark.prompt.examples",
    "fewshot": "benchmark.lm_eval.num_fewshot=N, of other benchmarks benchmark.prompt.examples",
    "apply_chat_template": "benchmark.lm_eval.apply_chat_template=true; chat servers apply it themselves",
    "fewshot_as_multiturn": "benchmark.lm_eval.fewshot_as_multiturn=true",
    "system_instruction": "benchmark.lm_eval.system_instruction=TEXT",
    "gen_kwargs": "--temperature, --top-p, --max-output-tokens, and responses_create_params.NAME=VALUE",
    "seed": "responses_create_params.seed=N",
    "log_samples": "nothing: every answer is kept",
    "write_out": "`gym eval preview`",
    "predict_only": "nothing: answers are kept, and `gym eval reverify` grades them again",
    "device": "nothing: the model runs in a server, which --model-url names",
    "tokenizer": "policy_tokenizer=NAME",
    "wandb_args": "`gym job export --to wandb`",
    "judge_model": "--judge MODEL",
}


def meant(option: str) -> str | None:
    """What says here what an option of another program says; ``None`` for one that nobody has."""
    from nemo_gym.rollouts.run_config.foreign_names import above

    name = option.lstrip("-").replace("-", "_")
    if name in _MEANT:
        return _MEANT[name]
    path = above("responses_create_params").get(name)
    return None if path is None else f"{path}=VALUE"


class EvalCommand(click.Command):
    """A command whose unknown options are answered with what says the same here."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does it."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            found = meant(error.option_name)
            if found is None:
                raise
            said = f"No such option '{error.option_name}'; here it is {found}."
            raise click.UsageError(said, ctx) from None


class Tasks(click.ParamType[int]):
    """A number of tasks."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; a share, as lm-eval takes it, is refused with the reason."""
        try:
            return int(value)
        except ValueError:
            said = f"{value!r} is not a whole number"
            if str(value).replace(".", "", 1).isdecimal():
                said += "; it is how many tasks are asked, and never a share of them"
            self.fail(f"{said}.", param, ctx)


def one_benchmark(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> str | None:
    """The benchmark that was named; several are refused."""
    names = [name for text in value for name in text.split(",") if name]
    if len(names) > 1:
        raise click.BadParameter(
            f"{len(names)} are named ({', '.join(names)}), and a run measures one; "
            "`gym eval submit` takes several."
        )
    return names[0] if names else None
