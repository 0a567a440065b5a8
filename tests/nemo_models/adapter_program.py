"""Makes an adapter that answers otherwise than its base model: ``adapter_program.py BASE FOLDER NAME``.

Run in an engine's interpreter; NAME is what the adapter calls its base model.
"""

import json
import sys
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer


def main(base, folder, name):
    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_pretrained(base)
    options = LoraConfig(r=4, lora_alpha=64, target_modules="all-linear", init_lora_weights=False)
    get_peft_model(model, options).save_pretrained(folder)
    AutoTokenizer.from_pretrained(base).save_pretrained(folder)
    config = Path(folder, "adapter_config.json")
    config.write_text(json.dumps({**json.loads(config.read_text()), "base_model_name_or_path": name}))


if __name__ == "__main__":
    main(*sys.argv[1:])
