"""What a training would learn; run in an engine's interpreter: ``learned_program.py REQUESTS FOLDER``.

Each request has a spec, and ``trainer``: whether the engine's own trainer is built and its batches are shown
too. Nothing is trained.
"""

import contextlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

with contextlib.redirect_stdout(sys.stderr):
    from nemo_engines import preview, spec
    from nemo_engines.data import rows
    from nemo_engines.errors import TrainerError
    from nemo_engines.registry import engine_for, load_driver
    from nemo_engines.running import TrainingRun, World


def batches(wanted, folder):
    """Text and learned text of each row that the trainer's own loader gives, in the file's order."""
    data = rows.read_for(wanted, Path(wanted.dataset), "training")
    driver = load_driver(engine_for(wanted))
    (folder / "work").mkdir(parents=True)
    run = TrainingRun(
        spec=wanted,
        session=SimpleNamespace(progress=lambda **_: None),
        world=World(),
        rows=data.rows,
        validation_rows=None,
        checkpoint=None,
        work=folder / "work",
        staging=folder / "staging",
        device="cpu",
        precision="fp32",
    )
    if wanted.engine == "automodel":
        return automodel_batches(run, folder)
    from transformers import TrainerCallback

    trainer = driver._trainer(run, TrainerCallback())
    decode, found = trainer.processing_class.decode, []
    for batch in trainer.get_train_dataloader():
        marks = batch["completion_mask"] if wanted.method == "dpo" else batch["labels"] != -100
        for ids, learned, there in zip(batch["input_ids"], marks, batch["attention_mask"], strict=True):
            found.append([decode(ids[there.bool()]), decode(ids[learned.bool()])])
    return found


def automodel_batches(run, folder):
    from nemo_engines.automodel import data

    tokenizer, file = data.tokenizer_of(run.spec), folder / "rows.jsonl"
    data.write(file, data.tokens_of(data.writer(run.spec, tokenizer), run.rows), run.spec.max_seq_length)
    found = data.token_rows(str(file), run.spec.max_seq_length, tokenizer)
    decode = tokenizer.decode
    return [
        [decode(row["input_ids"]), decode([label for label in row["labels"] if label != -100])]
        for row in found
    ]


def main(requests, folder):
    answers = []
    for number, request in enumerate(json.loads(Path(requests).read_text())):
        try:
            wanted = spec.parse_spec(request["spec"])
            found = preview.preview(wanted, 100)
            if request.get("trainer"):
                found["batches"] = batches(wanted, Path(folder) / str(number))
        except TrainerError as error:
            found = {"refused": str(error)}
        answers.append(found)
    return answers


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        answers = main(sys.argv[1], sys.argv[2])
    print(json.dumps(answers))
