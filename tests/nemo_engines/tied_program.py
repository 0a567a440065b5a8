"""Whether a trained lm_head of a model with tied embeddings is in every form that is published.

Run in an engine's interpreter: ``tied_program.py BASE ADAPTER MERGED GGUF``.
"""

import contextlib
import json
import sys
from pathlib import Path

with contextlib.redirect_stdout(sys.stderr):
    import torch
    from gguf import GGUFReader
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from nemo_engines.export import gguf


def logits(model, ids):
    model.eval()
    with torch.no_grad():
        return model(ids).logits


def main(base, adapter, merged, exported):
    ids = AutoTokenizer.from_pretrained(base)("What is 3 + 4? The sum is 7.", return_tensors="pt")[
        "input_ids"
    ]
    plain = logits(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), ids)
    whole = PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), adapter
    )
    trained = logits(whole, ids)
    again = AutoModelForCausalLM.from_pretrained(merged, dtype=torch.float32)
    gguf.main([merged, exported, "--type", "f32"])
    tensors = {tensor.name: torch.tensor(tensor.data) for tensor in GGUFReader(exported).tensors}
    head = again.get_output_embeddings().weight.detach()
    return {
        "moved": float((trained - plain).abs().max()),
        "merged": float((logits(again, ids) - trained).abs().max()),
        "tied": again.config.tie_word_embeddings,
        "exported": float((tensors["output.weight"].reshape(head.shape) - head).abs().max()),
    }


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        found = main(*(str(Path(argument)) for argument in sys.argv[1:]))
    print(json.dumps(found))
