"""``rl``: DPO and GRPO."""

from __future__ import annotations

from nemo_helix_plugin.customization.backends import BUILT_IN
from nemo_helix_server.customizer.backends.base import Backend
from nemo_helix_server.customizer.backends.rl import spec, support

BACKEND = Backend(
    description=BUILT_IN["rl"],
    engine="trl",
    tables=(support.DPO, support.GRPO),
    rules=spec.rules,
    resolve=spec.resolve,
    engine_spec=spec.engine_spec,
    estimator="nemo_engines.dry_run",
    training_step=lambda engine_spec: f"{engine_spec['method']}-training",
    pause_deadline_seconds=3600,  # one step includes generating rollouts
)
