"""``unsloth``: supervised fine-tuning with Unsloth on one device."""

from __future__ import annotations

from nemo_helix_plugin.customization.backends import BUILT_IN
from nemo_helix_server.customizer.backends.base import Backend
from nemo_helix_server.customizer.backends.unsloth import spec, support

BACKEND = Backend(
    description=BUILT_IN["unsloth"],
    engine="unsloth",
    tables=(support.TABLE,),
    rules=spec.rules,
    resolve=spec.resolve,
    engine_spec=spec.engine_spec,
    estimator="nemo_engines.dry_run",
)
