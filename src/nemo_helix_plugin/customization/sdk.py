"""Fine-tuning for programs.

::

    from nemo_helix_plugin.customization.sdk import Customization

    customization = Customization.from_client(client)
    handle = customization.rl.jobs.create(spec={"model": …, "dataset": …, "training": {"type": "dpo"}})
    client.jobs.pause_job(name=handle.job.name)
"""

from nemo_helix_plugin.client.calls.tuning import CustomizationJob
from nemo_helix_plugin.client.tuning_groups import AsyncCustomizationClient as AsyncCustomization
from nemo_helix_plugin.client.tuning_groups import CustomizationClient as Customization

__all__ = ["AsyncCustomization", "Customization", "CustomizationJob"]
