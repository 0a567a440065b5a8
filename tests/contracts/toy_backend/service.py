"""What the service knows of the backend ``toy``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nemo_helix_server.customizer.backends import shared
from nemo_helix_server.customizer.backends.base import Backend
from nemo_helix_server.customizer.facts import CompileFacts
from nemo_helix_server.customizer.support import Rule, SupportTable

from .description import DESCRIPTION, ToyJobInput

PACKAGE = __name__.rpartition(".")[0]
TABLE = SupportTable(
    kind="toy",
    title="toy: words are counted",
    supported={
        "name": "the job's name",
        "model": "model",
        "data.rows": "dataset",
        "rounds": "rounds",
        "pace": "pace",
        "output": "names of the trained model and its fileset",
    },
    rules=(Rule("pace", ("walk", "run"), "words do not fly"),),
)


def rules(given: ToyJobInput, facts: CompileFacts) -> Iterator[Rule]:
    """What holds for this input here."""
    yield from shared.in_force(TABLE.rules, facts)


def resolve(spec: dict[str, Any], facts: CompileFacts) -> None:
    """Fill in what is left open."""
    spec["checkpoints"] = shared.checkpoints(facts)


def engine_spec(spec: Mapping[str, Any], facts: CompileFacts) -> dict[str, Any]:
    """The engine's input."""
    return {**shared.engine_base(spec, facts, "count"), "rounds": spec["rounds"], "pace": spec["pace"]}


BACKEND = Backend(
    description=DESCRIPTION,
    engine="toy",
    tables=(TABLE,),
    rules=rules,
    resolve=resolve,
    engine_spec=engine_spec,
    training_step=lambda engine_spec: f"{engine_spec['method']}-training",
    trainer=f"{PACKAGE}.train",
    previewer=f"{PACKAGE}.preview",
    pause_deadline_seconds=77,
)
