"""A user's own settings, for all submissions: who is notified of ends, and what things cost."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from nemo_gym.orchestration.config.notify_schema import NotifyConfig
from nemo_gym.orchestration.config.price_schema import PriceList
from nemo_runs import homes

SETTINGS_VARIABLE = "NEMO_GYM_SETTINGS"


class GymSettings(BaseModel):
    """The content of the settings file; all of it may be left out."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    notify: NotifyConfig | None = None
    """For submissions that say nothing about it themselves."""
    prices: PriceList = PriceList()


def settings_path(environ: Mapping[str, str]) -> Path:
    """Where the settings are: what `SETTINGS_VARIABLE` names, else a file in the user's own folder."""
    named = environ.get(SETTINGS_VARIABLE, "")
    if named:
        return Path(os.path.abspath(Path(named).expanduser()))
    return homes.base("XDG_CONFIG_HOME", ".config", environ) / "nemo-gym" / "settings.yaml"


def load_settings(environ: Mapping[str, str] = os.environ) -> GymSettings:
    """The user's settings; without a file nothing is set.

    Raises `nemo_gym.errors.ConfigError` for a file that cannot be read or holds something else, and for one
    that the variable names and that is not there.
    """
    path = settings_path(environ)
    if not path.exists() and not environ.get(SETTINGS_VARIABLE):
        return GymSettings()
    from nemo_gym import composition

    return composition.check_model(GymSettings, composition.load_yaml(path), where=str(path), files=[path])
