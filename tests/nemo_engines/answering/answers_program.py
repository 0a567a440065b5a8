"""Makes a small model and an adapter, and says what both answer: ``answers_program.py FOLDER QUESTION…``.

Run in an engine's interpreter; the last line is one JSON object.
"""

import json
import sys
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3Config

sys.path.insert(0, str(Path(__file__).parents[1]))
import tiny_model

SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,  # so that what was asked decides what follows
    "tie_word_embeddings": True,
}


def answer(model, words, question):
    text = words.apply_chat_template(
        [{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False
    )
    given = words(text, return_tensors="pt", add_special_tokens=False)
    made = model.eval().generate(**given, do_sample=False, max_new_tokens=12)[0]
    return words.decode(made[given["input_ids"].shape[1] :], skip_special_tokens=True)


def main(folder, questions):
    words = tiny_model.tokenizer()
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(Qwen3Config(vocab_size=len(words), **SHAPE))
    base, adapter = folder / "base", folder / "adapter"
    model.save_pretrained(base)
    words.save_pretrained(base)
    torch.manual_seed(1)
    options = LoraConfig(r=4, lora_alpha=16, target_modules="all-linear", init_lora_weights=False)
    get_peft_model(AutoModelForCausalLM.from_pretrained(base), options).save_pretrained(adapter)
    words.save_pretrained(adapter)
    config = adapter / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "base_model_name_or_path": str(base)}))
    words = AutoTokenizer.from_pretrained(base)
    plain = AutoModelForCausalLM.from_pretrained(base)
    expected = {"base": [answer(plain, words, one) for one in questions]}
    tuned = PeftModel.from_pretrained(plain, adapter)
    expected["adapter"] = [answer(tuned, words, one) for one in questions]
    print("\n" + json.dumps(expected))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
