"""Write docs/reference/customization.md from the backends: their input types and support tables.

`page` is compared by a test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from nemo_helix_plugin.customization import common_fields
from nemo_helix_plugin.customization.backends import BUILT_IN
from nemo_helix_plugin.customization.requests import CustomizationOptions
from nemo_helix_server.customizer.backends import registry
from nemo_helix_server.customizer.support import Rule

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "customization.md"

HEAD = """# Fine-tuning jobs

`nemo customization sft|dpo|grpo --model M --data FILE -o NAME` submits a job by the backend that is
installed, in [fields of one set of names](#one-set-of-names).
`nemo customization {names} --job-json job.json` submits one to a backend; the file holds the
backend's own spec, as YAML or JSON. This page is written from the code (`make reference`).

- Everything that is wrong with a spec is said at once: each field by its dotted name (and its line, of a file
  that `nemo` reads), with what would be right; then each name that nothing has, and what the service lacks.
  What relates fields to each other is looked at where the fields themselves are right.
- A field that is not supported is refused by its dotted name when it is set. A default that is not
  supported becomes what is done instead, and the stored spec shows it.
- A model is `workspace/name` (a model or fileset), a folder of the service's machine as `/path` or
  `file:///path` (referred to, not copied), or `hf://owner/name`. Data are given in the same ways.
- With DPO a model may be an adapter of the workspace, such as the one that a supervised training made. The
  adapter itself is trained on, from its weights and in its shape, and what it is at the start is the
  reference; the new adapter belongs to the same base model. `training.lora` is refused then.
- Four steps follow each other: `model-and-dataset-download` (GRPO: `model-dataset-environment-download`),
  `training` (`dpo-training`, `grpo-training`), `model-upload`, `model-entity-creation`. Only training can be
  paused.
- Rows are JSON Lines: `train.jsonl`, or the only `.jsonl` file of a folder; `validation.jsonl` beside it is
  validated with. A row that cannot be used is named by file and line before training starts; see
  [rows](#rows).
- `nemo customization <backend> preview --job-json job.json -n 3` shows what a job would learn, without one.
- `nemo customization <backend> --job-json job.json --dry-run` checks all that a job looks at before its first
  step, every row, names and disk included, and says what it would take; see [dry run](#dry-run).
- With access tokens on, paths are open only below the folders of the setting `customization.local_paths`.
- The environment of GRPO is a folder with `manifest.yaml`: `format: native-v1`, and `config_paths` that name
  the config of a `gym` benchmark in the folder. Its prompt and verifier give the rewards. The formats
  `wheels-v1` and `adapter-wheels-v1` are refused.

## Rows

Every row is written by itself, with the model's own tokenizer and chat template: nothing of it depends on
other rows. A byte-order mark and CRLF are read; compressed files, UTF-16, CSV and JSON arrays are refused in
words that say what they are, as are NaN, whole numbers of more than 64 bits, and a key that one object has
twice.

| Rows | What is learned |
| --- | --- |
| `messages`, with `tools` | what `rows.learned_turns` says; see below |
| `prompt` and `completion`, as texts or messages | the completion |
| `text` | all of it |
| `prompt`, `chosen`, `rejected` (DPO) | that `chosen` is preferred to `rejected` |
| rows of a benchmark (GRPO) | answers to its prompt that its verifier rewards |

- Of an assistant's message what it writes is learned, with the token that ends it; not what the template asks
  it with. A template that writes today's date gets 26 July 2024, so that every start makes the same rows.
- `weight`, `train`, `training` or `loss` of a message: with 0 or false nothing of it is learned. Other
  values than 0, 1, false and true are refused, and 1 for any message but the assistant's.
- `system` and `history` of a row, which no template would see, are refused, as are empty answers, answers
  with `label` false, and pairs of one answer. Rows as ShareGPT, Alpaca, KTO and OpenAI's pairs have them are
  refused with what to write instead.
- A text gets the tokens that the tokenizer puts around it, and the one that ends it, unless it has them.
- `mask`, `loss_mask`, `assistant_masks`, `labels`, `input_ids`, a `weight` of a whole row other than 1 and
  the like are not supported: they are refused by file and line. So is content other than text.
- Arguments of tool calls may be objects or, as the OpenAI API has them, JSON text: they are written once, as
  the template wants them.
- A message, `reasoning_content`, `tool_calls` or `tools` that the chat template never writes is refused.
  Other text that it leaves out (thoughts of earlier answers, names, descriptions of tools, an empty system
  message) is counted by kind in the preview, in the log and as a warning of the job; so are rows whose last
  answer it ends with no special token. This is found by what the template makes of the rows.
- Of whole conversations as `chosen` and `rejected` the common beginning is the prompt. A prompt that they
  repeat is not learned twice.
- Other keys are counted in the log and in the preview; nothing is learned of them.
- A row beyond `max_seq_length` loses its end, and one of which nothing to learn is left is left out; by
  `rows.overlong` it is left out whole (`drop`), or keeps the training from starting (`error`). How many there
  are, and their lines, is said in the preview, in the log and as a warning of the job.
- `rows.learned_turns`: of conversations the assistant's messages (`assistant`: the default of `automodel` and
  of `nemo customization sft`), the last of them (`last`), or the whole text (`all`: that of `unsloth`).
- `rows.chat_template` is the text of a template in the place of the model's own; the trained model gets it,
  and a training goes on only with the same one.
- `rows.beside` has more data sets with their weights, and `rows.weight` is that of the first: 1 is each row
  once an epoch, 2 twice, 0.5 half of the rows, always the same ones. See
  [mix data, and choose what is learned](../how-to/choose-what-is-learned.md).
- Of data sets at the hub keys without a value are left out, since their tables give all rows the keys of all.

## Dry run

`--dry-run` makes no job. The engine is asked on the service's machine, in the seconds that its libraries take
to load; nothing can be said of data or models that the job's first step would fetch from a hub. The exit
status is 0, or 3 where the job cannot work; `--force` makes it 0 all the same.

- *Memory* is that of one device at the moment when it is most. One step is done with tensors that have sizes
  and no values: of the model built from its configuration, with the engine's own loss, backward pass and
  optimizer, and with as many tokens as the longest rows bring. What is alive meanwhile is added up:
  - `weights`: parameters and buffers, of a reference model too; less what 4 or 8 bits save of frozen layers;
  - `gradients` and `optimizer`: of what is trained, as far as they exist at that moment;
  - `activations`: what the forward pass keeps for the backward pass;
  - `workspace`: what operations need in passing; on a GPU 500 MB for its context; on a CPU the pages that the
    allocator keeps: 6 % of all, and for adapters 87 % of the activations.

  On a CPU it is within 20 % of what six trainings take (`bench/training_memory.py`). Trainings on GPUs were
  not measured, and what the kernels of Unsloth save is not counted.
- A job is refused for its memory only where the *lower bound* is more than there is: weights, gradients and
  the optimizer's state, which exist together at each of its steps, whatever the rows are. Beyond that, and
  below the estimate, there is a warning.
- *Time* is the number of operations (6 for each trained parameter and token, 4 for a frozen one) by the speed
  of the newest trainings with the same engine and kind of device in the workspace. Where there is none it is
  a range a hundred times wide on a CPU, sixty times on a GPU.
- *Disk*: one checkpoint more than are kept, and the trained model twice.

## Before the first step

What the end needs is tried first. A model whose `generation_config.json` cannot be saved, and a quantized
model that is to be trained whole or merged, are refused; configuration and tokenizer are saved on trial; and
the disk must have space for a checkpoint and the trained model. A metric to choose the best checkpoint by
that nothing reports is refused at the latest with the first step. The first step asks the service whether the
model's name is still free, and looks for free space where filesets are stored.

"""
WHERE = {
    "any": "",
    "cpu": "on machines without a GPU: ",
    "one node": "",
    "untrusted": "without the role admin: ",
}


def fields(model: type[BaseModel], kind: str, where: str = "") -> Iterator[tuple[str, Any]]:
    """Path and default of every field that holds no model itself."""
    for name, field in model.model_fields.items():
        path = f"{where}.{name}" if where else name
        inner = [one for one in models(field.annotation) if fits(one, kind)]
        if inner:
            for one in inner:
                yield from fields(one, kind, path)
        else:
            yield path, "required" if field.is_required() else field.get_default(call_default_factory=True)


def models(annotation: Any) -> list[type[BaseModel]]:
    """The models in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [one for part in get_args(annotation) for one in models(part)]


def fits(model: type[BaseModel], kind: str) -> bool:
    """Whether a model is one of this kind of job."""
    known = model.model_fields.get("type")
    return known is None or kind in get_args(known.annotation)


def fate(path: str, supported: Mapping[str, str], rules: tuple[Rule, ...]) -> str:
    """What becomes of a field."""
    parts = path.split(".")
    said = []
    for length in range(1, len(parts) + 1):
        place = ".".join(parts[:length])
        if place in supported:
            said.append(f"→ {supported[place]}")
        for rule in rules:
            if rule.path == place:
                allowed = " or ".join(shown(value) for value in rule.allowed if value is not None)
                only = f"only {allowed}" if allowed else "not supported"
                said.append(f"{WHERE[rule.on]}{only}: {rule.reason}")
    return "; ".join(said)


def shown(value: Any) -> str:
    """A value as JSON has it."""
    if value is None:
        return "`null`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, list):
        return f"`{', '.join(map(str, value))}`"
    return f"`{value}`" if value != "required" else "required"


COMMON = """## One set of names

`nemo customization sft`, `dpo` and `grpo` take these fields as options (`--learning-rate`; `-o` for
`output`), by `--set field=value`, and from a YAML or JSON file by `--spec`. Options win over `--set`, and
that over the file.

- The backend is the one that the file's `backend` or `--backend` names; else the first that is installed
  among those that have every field which was given: with `load_in_4bit` it is `unsloth`.
- Fields of a backend's own spec are taken under their own names, as `training.lora.exclude_modules`. A name
  that another backend has for the same, such as `batch.global_batch_size`, is taken for all.
- `model` is a model of the workspace, a folder with a `config.json`, or a name at the hub, with `hf://` in
  front or without: what no workspace can have or has is looked up there. A folder is referred to where the
  service is on this machine, and sent otherwise, or with `--upload-model`.
- Files and folders of `data`, `validation` and `environment` are sent to filesets that are named by what is
  in them: the same content is sent once, and a job goes on with what it began with. Relative paths in a file
  are looked up beside it, then in the current folder.
- All errors are said at once, in the names that were written and with their lines.
- `--print-spec` prints the backend's spec. `explain` prints the table below, `preview` shows what would be
  learned; `--dry-run`, `--sweep`, `--wait`, `--watch` and `--profile` work as with a backend's own command,
  and `--option` is what is `-o` there.

| Field | Meaning | For | automodel | unsloth | rl |
| --- | --- | --- | --- | --- | --- |
"""
DEFAULTS = """
Where nothing is given, it does not depend on the backend: {defaults}. `load_in_4bit` is `false`.
The learning rate is {rates}.
"""


def one_set_of_names() -> Iterator[str]:
    """The section about the names that every backend takes."""
    yield COMMON.rstrip("\n")
    for field in common_fields.FIELDS:
        methods = "all" if len(field.methods) == len(common_fields.METHODS) else ", ".join(field.methods)
        places = (f"`{field.places[one]}`" if one in field.places else "" for one in BUILT_IN)
        yield f"| `{field.name}` | {field.meaning} | {methods} | {' | '.join(places)} |"
    given = "; ".join(
        f"for {method} " + ", ".join(f"`{name}: {value}`" for name, value in values.items())
        for method, values in common_fields.DEFAULTS.items()
    )
    rates = "; ".join(
        f"for {method} {rates['lora']:g} of adapters, {rates['all_weights']:g} of all weights"
        for method, rates in common_fields.RATES.items()
    )
    yield DEFAULTS.format(defaults=given, rates=rates)


def page(names: Iterable[str] = tuple(BUILT_IN)) -> str:
    """The whole page, about these backends."""
    lines = [HEAD.replace("{names}", "|".join(names)).rstrip("\n"), "", *one_set_of_names()]
    for backend in map(registry.find, names):
        for table in backend.tables:
            lines += [
                f"## {table.title}",
                "",
                "| Field | Default | What becomes of it |",
                "| --- | --- | --- |",
            ]
            lines += [
                f"| `{path}` | {shown(default)} | {fate(path, table.supported, table.rules)} |"
                for path, default in fields(backend.description.input_type(), table.kind)
            ]
            lines.append("")
    lines += ["## Options", "", "`-o backend.key=value`, or the request's `options`.", ""]
    lines += ["| Option | Default |", "| --- | --- |"]
    lines += [f"| `{path}` | {shown(default)} |" for path, default in fields(CustomizationOptions, "")]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
