"""The last step: the trained model by name, through the service."""

from __future__ import annotations

import json
from typing import Any

from nemo_helix_server.customizer.steps.reporting import StepError, TransferReport, main
from nemo_helix_server.customizer.steps.service_calls import ServiceRefusedError, ask


def register(config: dict[str, Any], report: TransferReport) -> None:
    """Make the model known; the same once more is fine."""
    report.update(now=True, phase="registering", model=config["model"]["name"])
    workspace = config["workspace"]
    body = {name: value for name, value in config["model"].items() if value is not None}
    try:
        ask(report, f"/apis/models/v2/workspaces/{workspace}/models", body)
    except ServiceRefusedError as error:
        where = f"{workspace}/{body.get('fileset')}"
        raise StepError(
            f"the service refused the model: {error.detail.rstrip('.')}; its files are whole in the fileset "
            f"{where}: name them with `nemo models register`"
        ) from error
    path = report.context.trainer_path / "registered.json"
    path.write_text(json.dumps(body) + "\n", encoding="utf-8")
    report.outputs([path])


if __name__ == "__main__":
    main(register)
