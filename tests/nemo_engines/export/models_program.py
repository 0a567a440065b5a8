"""Makes small models, writes them for llama.cpp and says what transformers makes of some prompts.

Run in an engine's interpreter: ``models_program.py FOLDER``; the last line is one JSON object.
"""

import json
import sys
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, Qwen2Config, Qwen3Config

from nemo_engines.errors import BadSpecError
from nemo_engines.export import gguf, unpack

sys.path.insert(0, str(Path(__file__).parents[1]))
import tiny_model

PROMPTS = ["What is 7 + 5?", "12 + 34 is 46\n\n  isn't it?", "Was ist größer: 3 oder 22…  \t数?"]
SHAPE = {
    "vocab_size": 520,  # more rows than tokens
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,  # so that attention decides what follows
}
MODELS = {
    "llama": LlamaConfig(**SHAPE, tie_word_embeddings=False, attention_bias=True),
    "qwen2": Qwen2Config(
        **{name: value for name, value in SHAPE.items() if name != "head_dim"}, tie_word_embeddings=True
    ),
    "qwen3": Qwen3Config(
        **SHAPE, tie_word_embeddings=True, rope_parameters={"rope_theta": 5e5, "rope_type": "default"}
    ),
}


def answers(model, words):
    found = []
    for prompt in PROMPTS:
        asked = [{"role": "user", "content": prompt}]
        text = words.apply_chat_template(asked, add_generation_prompt=True, tokenize=False)
        inputs = words(text, return_tensors="pt")
        made = model.eval().generate(
            **inputs, do_sample=False, max_new_tokens=16, eos_token_id=[], pad_token_id=0
        )
        asked_ids = inputs["input_ids"][0].tolist()
        found.append(
            {"prompt": prompt, "text": text, "ids": asked_ids, "answer": made[0][len(asked_ids) :].tolist()}
        )
    return found


def adapted(folder, base):
    torch.manual_seed(1)
    plain = AutoModelForCausalLM.from_pretrained(base)
    wrapped = get_peft_model(plain, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False))
    wrapped.save_pretrained(folder)
    return PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), folder)


def refusal(file, folder):
    try:
        unpack.unpack(file, folder)
    except BadSpecError as error:
        return str(error)
    return None


def main(folder):
    words = tiny_model.tokenizer()
    report = {}
    for name, config in MODELS.items():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config)
        for part, value in model.named_parameters():
            if part.endswith("bias"):
                torch.nn.init.normal_(value, std=0.3)
        model.save_pretrained(folder / name)
        words.save_pretrained(folder / name)
        report[name] = answers(model, AutoTokenizer.from_pretrained(folder / name))
        gguf.write(folder / name, folder / f"{name}.gguf", kind="f32")
    report["refused"] = refusal(folder / "llama.gguf", folder / "unpacked")
    unpack.unpack(folder / "qwen2.gguf", folder / "unpacked")
    unpacked = AutoModelForCausalLM.from_pretrained(folder / "unpacked")
    report["unpacked"] = answers(unpacked, AutoTokenizer.from_pretrained(folder / "unpacked"))
    report["adapter"] = answers(adapted(folder / "adapter", folder / "llama"), words)
    words.save_pretrained(folder / "adapter")
    gguf.write(folder / "adapter", folder / "adapter.gguf", kind="f32")
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
