"""Unpacks a GGUF file, writes it again and compares the two: ``round_program.py FILE FOLDER``."""

import json
import sys
from pathlib import Path

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from transformers import AutoModelForCausalLM, AutoTokenizer

from nemo_engines.export import gguf, unpack

SETTINGS = {"general.architecture", "tokenizer.chat_template"}
PARTS = ("tokenizer.ggml.", "llama.")
PROMPTS = ["What is 7 + 5? Answer with the number only.", "What is 12 + 47?", "The capital of France?"]


def tensors(reader):
    return {tensor.name: dequantize(tensor.data, tensor.tensor_type) for tensor in reader.tensors}


def settings(reader):
    fields = reader.fields.items()
    return {name: field.contents() for name, field in fields if name in SETTINGS or name.startswith(PARTS)}


def answers(folder):
    words, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    for prompt in PROMPTS:
        asked = [{"role": "user", "content": prompt}]
        inputs = words.apply_chat_template(
            asked, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        made = model.generate(**inputs, do_sample=False, max_new_tokens=16)
        ids = inputs["input_ids"][0].tolist()
        yield {"ids": ids, "answer": made[0][len(ids) :].tolist()}


def main(file, folder):
    unpack.unpack(file, folder / "model")
    gguf.write(folder / "model", folder / "again.gguf", kind="f32")
    before, after = GGUFReader(file), GGUFReader(folder / "again.gguf")
    old, new = tensors(before), tensors(after)
    said, says = settings(before), settings(after)
    report = {
        "different_tensors": [
            name for name in {*old, *new} if not np.array_equal(old.get(name), new.get(name))
        ],
        # what the file left to llama.cpp's defaults may be said now
        "different_settings": [name for name in said if said[name] != says.get(name)],
        "answers": list(answers(folder / "model")),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
