"""``python -m nemo_engines.dry_run --spec FILE``: what would stop a training, and what it will take.

Spec, device and every row are looked at as a training does it, the model is built without weights, and what
the end saves is saved on trial. Standard output is one JSON document.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nemo_engines import devices, preview, spec
from nemo_engines.errors import TrainerError, setting_up
from nemo_engines.estimate import sizes as sizing
from nemo_engines.estimate import timing
from nemo_engines.registry import engine_for
from nemo_engines.run import DEFAULTS
from nemo_engines.saving import check_metric
from nemo_engines.spec import EngineSpec


def main(argv: Sequence[str] | None = None) -> int:
    """Print what was found out; the exit code is that of the training that would fail."""
    parser = argparse.ArgumentParser(
        prog="nemo_engines.dry_run", description="Check a training; train nothing."
    )
    parser.add_argument("--spec", type=Path, required=True, help="JSON file with the engine spec")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="what the training will run on")
    parser.add_argument(
        "--speed", type=float, action="append", default=[], help="operations a second that were measured"
    )
    options = parser.parse_args(argv)
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    written = sys.stdout
    try:
        with contextlib.redirect_stdout(sys.stderr):  # libraries talk; the document stands alone
            found = dry_run(spec.read_spec(options.spec), options.device, options.speed)
    except TrainerError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    written.write(json.dumps(found) + "\n")
    return 0


def dry_run(wanted: EngineSpec, device: str | None = None, measured: Sequence[float] = ()) -> dict[str, Any]:
    """Facts of the rows, sizes, memory of one device by parts, time, and what will be saved."""
    check_metric(wanted)
    shown, lengths, tokens = preview.measured(wanted, device)
    device = device or devices.chosen_device(wanted)
    precision = devices.chosen_precision(wanted, device)
    sizes = sizing.training_sizes(wanted, lengths, tokens)
    from nemo_engines.estimate.memory import estimated_memory  # noqa: PLC0415 - loads the engine's libraries

    with setting_up():
        memory, model = estimated_memory(wanted, sizes, device=device, precision=precision)
        saved = _saved(wanted, model)
    seconds = timing.training_seconds(
        wanted,
        sizes,
        device=device,
        parameters=memory.parameters,
        trained=memory.trained,
        measured=measured,
    )
    return {
        **shown,
        "engine": engine_for(wanted).name,
        "device": device,
        "precision": precision,
        "sizes": sizes.to_json(),
        "parameters": memory.parameters,
        "trained_parameters": memory.trained,
        "memory": {**memory.parts, "total": memory.total, "lower_bound": memory.lower_bound},
        "processes": wanted.devices.count * wanted.devices.nodes,
        "seconds": seconds,
        "saved": saved,
    }


def _saved(wanted: EngineSpec, model: Any) -> dict[str, int]:
    """Save everything but weights on trial; the bytes of a checkpoint and of the trained model."""
    from nemo_engines.hf import ending  # noqa: PLC0415 - loads the engine's libraries
    from nemo_engines.hf.driver import load_tokenizer  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="nemo-rehearsal-") as folder:
        ending.rehearse_files(
            wanted,
            Path(folder),
            model,
            load_tokenizer(wanted),
            configurations=ending.writes_whole_model(wanted),
        )
    checkpoint, output = ending.saved_bytes(wanted, model, copies=1)
    return {"checkpoint": checkpoint, "output": output}


if __name__ == "__main__":
    sys.exit(main())
