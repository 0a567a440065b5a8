"""Whether code that a model wrote passes the tests of its task; it runs in a sandbox."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, cast

import orjson
from pydantic import BaseModel, ConfigDict, Field

from nemo_gym.errors import ConfigError
from nemo_gym.sandbox.protocol import Completed, SandboxError
from nemo_gym.sandbox.registry import load_sandbox, probe_now
from nemo_gym.types import Episode, MetricInfo, Policy, RolloutFailedError, Row, Task, Verdict
from nemo_gym.verifiers.code.answers import Extract, code_in, is_python, program_of
from nemo_gym.verifiers.code.row_tests import call_of, imports, statements_in, untested

CODE_FIELD: Final = "code_result"
"""Field of a verdict: how the code ended, and why it did not pass."""
_WORKER: Final = Path(__file__).with_name("worker.py")
_NO_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'$")
_SHARE: Final = MetricInfo(higher_is_better=False, low=0.0, high=1.0)


class CodeOptions(BaseModel):
    """Options of the verifier that runs code."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    language: Literal["python"] = "python"
    """What the code is written in."""
    extract: Extract = "last_block"
    """Where the code is in the answer: in its ``last_block`` or ``first_block`` between fences (one that
    defines the entry point before others; the whole answer where there are no fences), or ``completion``:
    the answer goes on where the prompt ends."""
    test_field: str = "test"
    """The field of the row that holds the tests: code that raises when the answer is wrong, or a list of
    statements."""
    entry_point_field: str | None = "entry_point"
    """The field with the name that the tests use; ``null``: rows have none."""
    prompt_field: str | None = None
    """The field with the beginning of the program, for rows that ask to go on with it: its imports and
    helpers are there for the code, and code that does not define the entry point goes on where it ends."""
    call: str = ""
    """What follows the tests, with ``{entry_point}`` in it. Tests that only define a function ``check``, as
    HumanEval's do, are followed by ``check({entry_point})`` without it."""
    sandbox: dict[str, Any] = Field(default_factory=dict)
    """How the code is isolated, and its limits: [Sandboxes](#sandboxes)."""
    processes: int | None = Field(None, ge=1, le=1024)
    """How many programs run at once; by default half as many as the machine has processors, at least 2."""


class CodeVerifier:
    """Reward 1 when the program ends its tests without an error, else 0 with the reason.

    A sandbox that does not work is an error of the verifier and grades nothing.
    """

    Options: ClassVar[type[BaseModel]] = CodeOptions
    metrics: ClassVar[Mapping[str, MetricInfo]] = {"no_code": _SHARE, "beyond_limits": _SHARE}

    def __init__(self, options: BaseModel, _models: Mapping[str, Policy] | None = None) -> None:
        self.options = cast("CodeOptions", options)
        try:
            self.options.call.format(entry_point="f")
        except (KeyError, IndexError, ValueError) as error:
            raise ConfigError(
                f"call: {self.options.call!r} may hold {{entry_point}} only ({error!r})"
            ) from error
        self.sandbox = load_sandbox(self.options.sandbox, where="benchmark.verifier.sandbox")
        self.graded_with: dict[str, str] = {}
        """The Python that runs the code, once it was asked: another one may give other grades."""
        self._at_once = asyncio.Semaphore(self.options.processes or max(2, (os.cpu_count() or 2) // 2))

    def start(self) -> None:
        """See that the sandbox works; raises `SandboxError`, before the first question is asked."""
        probe = probe_now(self.sandbox)
        if not probe.works:
            raise SandboxError(f"benchmark.verifier.sandbox: {probe.reason}.")
        self.graded_with |= {"python": probe.python_version, "python_sha256": probe.python_digest}

    def check_row(self, row: Row) -> str | None:
        """The row needs tests, and the fields that the options name."""
        options = self.options
        for field in (options.entry_point_field, options.prompt_field):
            if field is not None and (not isinstance(row.get(field), str) or not row[field].strip()):
                return f"no '{field}', a text"
        tests = statements_in(row.get(options.test_field))
        if tests is None:
            return f"no '{options.test_field}', a text or a list of statements"
        if options.entry_point_field is not None and not row[options.entry_point_field].isidentifier():
            return f"'{options.entry_point_field}' is not a name: {row[options.entry_point_field]!r:.60}"
        if not is_python(tests):
            return f"'{options.test_field}' is not valid Python"
        problem = untested(tests, options.call)
        return f"'{options.test_field}' {problem}" if problem else None

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Run the code of the answer, then its tests."""
        options, row = self.options, task.row
        entry = None if options.entry_point_field is None else str(row[options.entry_point_field])
        code = code_in(episode.text, options.extract, entry)
        if code is None:
            return _verdict(None, {"end": "no code"}, no_code=1.0)
        prompt = "" if options.prompt_field is None else str(row[options.prompt_field])
        given = statements_in(row[options.test_field]) or ""
        tests = f"{given}\n{call_of(given, options.call).format(entry_point=entry or '')}\n"
        job = {"word": secrets.token_hex(16), "code": program_of(code, prompt, entry), "tests": tests}
        done = await self._run(job)
        if done.was_killed:  # once more: not every time will somebody else do that
            done = await self._run(job)
        verdict = _graded(code, done, job["word"])
        missing = _missing_module(verdict)
        if missing is not None and missing in imports(given):
            raise RolloutFailedError(
                "verifier_error",
                f"the tests import {missing}, which the sandbox's Python lacks; name one that has it: "
                "benchmark.verifier.sandbox.python",
            )
        return verdict

    async def _run(self, job: Mapping[str, str]) -> Completed:
        try:
            async with self._at_once, self.sandbox.open() as session:
                files = {_WORKER.name: _WORKER.read_bytes()}
                argv = ["python3", "-I", _WORKER.name]
                return await session.run(argv, stdin=json.dumps(job).encode(), files=files)
        except SandboxError as error:
            raise RolloutFailedError("verifier_error", str(error)) from error


def _graded(code: str, done: Completed, word: str) -> Verdict:
    """What the end of the program means."""
    if done.limit is not None:
        return _verdict(code, {"end": "limit", "limit": done.limit}, beyond_limits=1.0)
    report = _report(done.stdout, word)
    if report is None:
        said = f"the program ended with status {done.returncode} before its tests did"
        return _verdict(code, {"end": "exited", "error": said})
    if report["passed"]:
        return _verdict(code, {"end": "passed"}, reward=1.0)
    line = "" if report.get("line") is None else f"line {report['line']} of the {report['stage']}: "
    text = f": {report['text']}" if report.get("text") else ""
    return _verdict(code, {"end": f"{report['stage']} failed", "error": f"{line}{report['kind']}{text}"})


def _missing_module(verdict: Verdict) -> str | None:
    """The module without which the tests could not run."""
    result = verdict.fields[CODE_FIELD]
    found = _NO_MODULE.search(result.get("error", "")) if result["end"] == "tests failed" else None
    return found[1].partition(".")[0] if found else None


def _report(written: bytes, word: str) -> dict[str, Any] | None:
    """What the worker reported; what the code of a model may have written in its place is none."""
    try:
        report = orjson.loads(written)
    except ValueError:
        return None
    if (
        not isinstance(report, dict)
        or report.get("word") != word
        or not isinstance(report.get("passed"), bool)
    ):
        return None
    return report if report["passed"] or {"stage", "kind"} <= report.keys() else None


def _verdict(
    code: str | None, result: Row, *, reward: float = 0.0, no_code: float = 0.0, beyond_limits: float = 0.0
) -> Verdict:
    metrics = {"no_code": no_code, "beyond_limits": beyond_limits}
    return Verdict(reward, code, {CODE_FIELD: result}, metrics)
