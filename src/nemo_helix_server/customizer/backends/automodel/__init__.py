"""``automodel``: supervised fine-tuning with the recipe of NeMo Automodel."""

from __future__ import annotations

from nemo_helix_plugin.customization.backends import BUILT_IN
from nemo_helix_server.customizer.backends.automodel import spec, support
from nemo_helix_server.customizer.backends.base import Backend

BACKEND = Backend(
    description=BUILT_IN["automodel"],
    engine="automodel",
    tables=(support.TABLE,),
    rules=spec.rules,
    resolve=spec.resolve,
    engine_spec=spec.engine_spec,
    estimator="nemo_engines.dry_run",
    staleness_timeout_seconds=3600,
)
