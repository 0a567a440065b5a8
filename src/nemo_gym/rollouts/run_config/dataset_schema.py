"""What a benchmark may say of its data: a file of rows, a script that makes one, or a data set of the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from nemo_gym.rollouts.run_config.choices import RightAs
from nemo_gym.rollouts.run_config.values import Index, Strict


class DataSource(Strict):
    """Where a benchmark's data is from, as `gym list benchmarks` says it."""

    address: Annotated[str, Field(min_length=1)]
    """The page of the data, or the package that holds it."""
    version: Annotated[str, Field(min_length=1)]
    """The version or revision that is used."""
    license: Annotated[str, Field(min_length=1)]
    """Its license, or what is known of it."""


class HubDataset(Strict):
    """A data set of the Hugging Face hub, or a folder on this machine that holds one."""

    path: Annotated[str, Field(min_length=1)]
    """``OWNER/NAME`` at the hub, or a folder: data files, or what `save_to_disk` wrote."""
    name: str | None = None
    """The subset, for data sets that have several; in a folder: a folder, or what its README.md says."""
    split: str | None = None
    """The split's name there; null: the only one."""
    revision: str | None = None
    """A commit or tag at the hub; null: the newest."""


class DatasetConfig(Strict):
    """One split of a benchmark: a file of rows, and how it is made if it is made."""

    jsonl_fpath: Path | None = None
    """JSON Lines, CSV, TSV or Parquet; absolute once loaded. Of data that is made: where it belongs."""
    prepare_script: Path | None = None
    """A Python file with ``prepare(output, **prepare_script_args)``."""
    huggingface: HubDataset | None = None
    """A data set of the hub, or a folder of that kind."""

    @model_validator(mode="after")
    def _is_somewhere(self) -> Self:
        if self.jsonl_fpath is None and self.huggingface is None:
            raise ValueError("needs jsonl_fpath (a file of rows) or huggingface (a data set)")
        if self.huggingface is not None and self.prepare_script is not None:
            raise ValueError("has both huggingface and prepare_script; its data is made one way")
        return self


class ChoicesConfig(Strict):
    """Where the data has the choices of a question, and which one is right."""

    texts: str | Annotated[list[str], Field(min_length=2)]
    """The field that holds them, or a field for each."""
    right: str
    """The field that says which one is right, or the one of ``texts`` that is the right choice."""
    right_as: RightAs | None = None
    """How ``right`` is read; null: as a label, a number or the text of a choice, where only one is meant."""
    count_from: Literal[0, 1] = 0
    """The number of the first choice."""
    shuffle: Index | None = None
    """A seed: each row gets its choices in an order of its own, the same for the same seed and choices."""

    @model_validator(mode="after")
    def _right_one_is_not_always_in_one_place(self) -> Self:
        if isinstance(self.texts, list) and self.right in self.texts and self.shuffle is None:
            raise ValueError(
                f"needs shuffle, a seed: the right choice is the field {self.right}, and would always have "
                "the same letter"
            )
        return self
