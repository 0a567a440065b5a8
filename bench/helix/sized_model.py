"""Makes a Qwen3 model with random weights, in an engine's interpreter: ``sized_model.py FOLDER HIDDEN LAYERS
WORDS``."""

import sys
from pathlib import Path

from transformers import Qwen3Config, Qwen3ForCausalLM

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "nemo_engines"))
import tiny_model

folder, hidden, layers, words = sys.argv[1], *map(int, sys.argv[2:])
tokenizer = tiny_model.tokenizer()
config = Qwen3Config(
    vocab_size=words,
    hidden_size=hidden,
    intermediate_size=3 * hidden,
    num_hidden_layers=layers,
    num_attention_heads=hidden // 64,
    num_key_value_heads=hidden // 128,
    head_dim=64,
    max_position_embeddings=4096,
    tie_word_embeddings=True,
    eos_token_id=tokenizer.eos_token_id,
    pad_token_id=tokenizer.pad_token_id,
)
Qwen3ForCausalLM(config).save_pretrained(folder)
tokenizer.save_pretrained(folder)
print("{}")
