"""``python -m nemo_engines.export.merged ADAPTER OUT --base BASE``: an adapter merged into its base model.

Runs in an engine's interpreter. What was written is loaded again, and its logits are compared with those of
base model and adapter, before the folder gets its name. The last line on stdout is a JSON object.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nemo_engines.errors import BadSpecError, EngineUnavailableError, NotSavedError, TrainerError

TOLERANCES: Mapping[str, float] = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 8e-2}
"""How far logits may be apart, as a share of the largest, by the numbers of the weights."""
_PROBES = 4
_PROBE_TOKENS = 24


def main(argv: Sequence[str] | None = None) -> int:
    """Write the folder; the exit codes are those of trainings."""
    parser = argparse.ArgumentParser(prog="nemo_engines.export.merged", description="Merge an adapter.")
    parser.add_argument("adapter", type=Path, help="folder of the adapter")
    parser.add_argument("output", type=Path, help="the folder to write; there when it is whole")
    parser.add_argument("--base", type=Path, required=True, help="folder of the base model")
    options = parser.parse_args(argv)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        os.environ.setdefault(name, "1")
    try:
        found = write(options.adapter, options.output, options.base)
    except TrainerError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


def write(adapter: Path, output: Path, base: Path) -> dict[str, Any]:
    """Merge, save, compare; gives the numbers of the weights and how far the logits are apart.

    Raises `TrainerError`; then there is nothing at ``output``.
    """
    try:
        from transformers import AutoTokenizer, utils  # noqa: PLC0415 - only an engine's environment has it
    except ImportError as error:
        raise EngineUnavailableError(f"{error}: use the environment of `nemo engines install trl`") from error
    utils.logging.disable_progress_bar()
    partial = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        wanted, numbers = _merge(adapter, base, partial)
        AutoTokenizer.from_pretrained(_words(adapter, base)).save_pretrained(partial)
        gc.collect()
        apart = difference(wanted, logits(partial, _load(partial)))
        allowed = TOLERANCES.get(numbers, TOLERANCES["bfloat16"])
        if not apart <= allowed:
            raise NotSavedError(
                f"the merged model differs from base and adapter by {apart:.2g} of the largest logit, more "
                f"than {allowed:g}: nothing was written"
            )
        _sync(partial)
        partial.rename(output)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:500]
        raise BadSpecError(f"the adapter {adapter} cannot be merged into {base}: {reason}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return {"numbers": numbers, "difference": apart, "tolerance": allowed}


def _merge(adapter: Path, base: Path, partial: Path) -> tuple[list[Any], str]:
    """Save the merged weights; the logits of base and adapter, and the numbers of the weights."""
    from peft import PeftModel  # noqa: PLC0415

    model = PeftModel.from_pretrained(_load(base), adapter).eval()
    wanted = logits(base, model)
    merged = model.merge_and_unload(safe_merge=True)
    merged.save_pretrained(partial)
    return wanted, str(merged.dtype).removeprefix("torch.")


def _load(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM  # noqa: PLC0415

    return AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()


def _words(adapter: Path, base: Path) -> Path:
    there = any((adapter / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json"))
    return adapter if there else base


def logits(folder: Path, model: Any) -> list[Any]:
    """The logits of some sequences of tokens, which depend on the vocabulary alone."""
    import torch  # noqa: PLC0415

    size = int(json.loads((folder / "config.json").read_bytes()).get("vocab_size") or 256)
    chance = torch.Generator().manual_seed(0)
    found = []
    with torch.inference_mode():
        for _ in range(_PROBES):
            ids = torch.randint(0, size, (1, _PROBE_TOKENS), generator=chance)
            found.append(model(input_ids=ids).logits.float())
    return found


def difference(ones: Sequence[Any], others: Sequence[Any]) -> float:
    """How far logits are apart at most, as a share of the largest."""
    return max(
        float((one - other).abs().max() / one.abs().max()) for one, other in zip(ones, others, strict=True)
    )


def _sync(folder: Path) -> None:
    for path in [*(one for one in folder.rglob("*") if one.is_file()), folder]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())
