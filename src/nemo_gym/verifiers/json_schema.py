"""Whether an answer is JSON that fits a schema, by the package ``jsonschema``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, ClassVar, Literal, cast

import orjson
from pydantic import BaseModel, ConfigDict, Field

from nemo_gym.errors import ConfigError
from nemo_gym.types import Episode, MetricInfo, Policy, Row, Task, Verdict
from nemo_gym.verifiers.grading_processes import GradingProcesses
from nemo_gym.verifiers.libraries import require

_FENCED = re.compile(r"^[ \t]*```[ \t]*\w*[ \t]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_FIRST_ERRORS = 5


class JsonSchemaOptions(BaseModel):
    """Options of the JSON schema verifier."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    json_schema: dict[str, Any] | None = None
    """The schema of all answers; null: each row has its own."""
    schema_field: str = "json_schema"
    """The field of the row that holds its schema, as an object or as JSON text."""
    within: Literal["fenced", "whole"] = "fenced"
    """Where the JSON is: ``fenced``: in the last code block, or the whole text where there is no block;
    ``whole``: the whole text."""
    check_formats: bool = False
    """Check ``format`` too, as far as the package alone can: ``date``, ``ipv4``, ``email``, …"""
    timeout_seconds: float = Field(30, gt=0, allow_inf_nan=False)
    """How long one answer may take."""


class JsonSchemaVerifier:
    """Reward 1 when the answer is JSON that fits the schema, else 0; ``parses`` is 1 where it is JSON at all.

    What does not fit is in the row as ``schema_errors``. References to other addresses are never followed.
    """

    Options: ClassVar[type[BaseModel]] = JsonSchemaOptions
    metrics: ClassVar[Mapping[str, MetricInfo]] = {
        "parses": MetricInfo(higher_is_better=True, low=0.0, high=1.0, unseen=0.0)
    }

    def __init__(self, options: BaseModel, _models: Mapping[str, Policy] | None = None) -> None:
        self.options = cast("JsonSchemaOptions", options)
        require("jsonschema", "jsonschema", "json_schema")
        if self.options.json_schema is not None and (problem := wrong_schema(self.options.json_schema)):
            raise ConfigError(f"json_schema is not a JSON schema: {problem}")
        self._processes = GradingProcesses(
            "nemo_gym.verifiers.json_schema:grader",
            {"check_formats": self.options.check_formats},
            time_limit=self.options.timeout_seconds,
        )

    def check_row(self, row: Row) -> str | None:
        """Without a schema for all, the row needs one."""
        if self.options.json_schema is not None:
            return None
        field = self.options.schema_field
        if row.get(field) is None:
            return f"no '{field}'"
        schema = self._schema(row)
        if schema is None:
            return f"'{field}' is neither an object nor the text of one"
        return f"'{field}' is not a JSON schema: {problem}" if (problem := wrong_schema(schema)) else None

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Parse the answer, and compare it with the schema."""
        text = json_text(episode.text, fenced=self.options.within == "fenced")
        try:
            value = orjson.loads(text)
        except ValueError as error:
            fields = {"schema_errors": [f"not JSON: {error}"]}
            return Verdict(0.0, None, fields, {"parses": 0.0})
        problems = await self._processes.call(value=value, schema=self._schema(task.row))
        fields = {"schema_errors": problems} if problems else {}
        return Verdict(float(not problems), text, fields, {"parses": 1.0})

    def _schema(self, row: Row) -> dict[str, Any] | bool | None:
        if self.options.json_schema is not None:
            return self.options.json_schema
        schema = row.get(self.options.schema_field)
        if isinstance(schema, str):
            try:
                schema = orjson.loads(schema)
            except ValueError:
                return None
        return schema if isinstance(schema, dict | bool) else None


def json_text(text: str, *, fenced: bool) -> str:
    """What of an answer is to be JSON."""
    blocks = _FENCED.findall(text) if fenced else []
    return (blocks[-1] if blocks else text).strip()


def wrong_schema(schema: Any) -> str | None:
    """What is wrong with a schema, or ``None``."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        return f"{error.message} (at {error.json_path})"
    return None


def grader(*, check_formats: bool) -> Callable[..., list[str]]:
    """In a grading process: what of a value does not fit a schema."""
    from jsonschema.validators import validator_for
    from referencing import Registry

    def grade(value: Any, schema: Any) -> list[str]:
        validator = validator_for(schema)
        formats = validator.FORMAT_CHECKER if check_formats else None
        found = validator(schema, registry=Registry(), format_checker=formats).iter_errors(value)
        return [f"{error.json_path}: {error.message}"[:300] for error in islice(found, _FIRST_ERRORS)]

    return grade
