"""Series of metrics that training steps report, and how far their files are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import bindparam, delete, func, select

from nemo_helix_server.jobs.model import MetricPoint, WritersStart
from nemo_helix_server.store import rows, schema
from nemo_helix_server.store.session import StorePart

_points, _tails = schema.metric_points.c, schema.tails.c

# Made once, since a list needs them for each of its jobs: making one takes longer than running it.
_HERE = (_points.job_id == bindparam("job_id"), _points.name == bindparam("name"))
_STEP_OF_SERIES = select(_points.step_name).where(*_HERE).limit(1)
_NEWEST = (
    select(_points.value)
    .where(*_HERE, _points.step_name == bindparam("step_name"))
    .order_by(_points.step.desc())
    .limit(bindparam("most"))
)


class SeriesReader(StorePart):
    """Questions about the series of jobs."""

    def documents(self, job_id: str) -> dict[str, list[dict[str, Any]]]:
        """The series of a job as documents: ``{name: [{step, epoch, value}…]}``, in the order of steps.

        Made for very many points: nothing is built that is not answered.
        """
        query = select(_points.name, _points.step, _points.epoch, _points.value)
        query = query.where(_points.job_id == job_id)
        series: dict[str, list[dict[str, Any]]] = {}
        ordered = query.order_by(_points.step_name, _points.name, _points.step)
        found = self.connection.execute(ordered)
        assert found.cursor is not None
        for name, step, epoch, value in found.cursor.fetchall():  # as the driver has them: half of the time
            point = {"step": step, "epoch": epoch, "value": value}
            if name in series:
                series[name].append(point)
            else:
                series[name] = [point]
        return series

    def latest(self, wanted: Mapping[str, str], most: int) -> dict[str, list[float]]:
        """The newest values of one series of each job, oldest first: ``wanted`` has its name by job id."""
        found: dict[str, list[float]] = {}
        for job_id, name in wanted.items():
            here = {"job_id": job_id, "name": name}
            step_name = self.connection.execute(_STEP_OF_SERIES, here).scalar()
            if step_name is not None:
                newest = self.connection.execute(_NEWEST, {**here, "step_name": step_name, "most": most})
                found[job_id] = [value for (value,) in newest][::-1]
        return found

    def tail(self, job_id: str, name: str) -> int:
        """How many bytes of a file of the job have been read; 0 at first."""
        query = select(_tails.offset).where(_tails.job_id == job_id, _tails.name == name)
        return int(self.connection.execute(query).scalar() or 0)

    def writers_start(self, job_id: str, step_name: str) -> WritersStart:
        """Where the newest writer of a step's series went on."""
        return WritersStart(*(self.tail(job_id, name) for name in _of_writer(step_name)))

    def newest_step(self, job_id: str, step_name: str) -> int:
        """The last training step that has a point; 0: none has."""
        query = select(func.max(_points.step)).where(_points.job_id == job_id, _points.step_name == step_name)
        return int(self.connection.execute(query).scalar() or 0)

    def values_by_step(
        self, job_id: str, step_name: str, *, after: int, to: int, most: int
    ) -> dict[int, dict[str, float]]:
        """The values of training steps, in order; so many values at most, but whole steps, at least one."""
        here = (_points.job_id == job_id, _points.step_name == step_name)
        query = select(_points.step, _points.name, _points.value)
        query = query.where(*here, _points.step > after, _points.step <= to).order_by(_points.step)
        found: dict[int, dict[str, float]] = {}
        number = 0
        for step, name, value in self.connection.execute(query.limit(most + 1)):
            found.setdefault(step, {})[name] = value
            number += 1
        if number <= most:
            return found
        last = max(found)
        if len(found) > 1:
            del found[last]
            return found
        whole = self.connection.execute(query.where(_points.step == last))
        return {last: {name: value for _, name, value in whole}}


class SeriesWriter(SeriesReader):
    """Adding to the series."""

    def add(self, job_id: str, step_name: str, points: Iterable[MetricPoint]) -> None:
        """Add to the series of a step; a point that is there is replaced."""
        new = [
            {
                "job_id": job_id,
                "step_name": step_name,
                "name": point.name,
                "step": point.step,
                "epoch": point.epoch,
                "value": point.value,
            }
            for point in points
        ]
        if new:
            rows.put(self.connection, schema.metric_points, new, replaced=("epoch", "value"))

    def truncate(self, job_id: str, step_name: str, after: int) -> None:
        """Drop every point of a step's series beyond a training step: training continues from there."""
        self.connection.execute(
            delete(schema.metric_points).where(
                _points.job_id == job_id, _points.step_name == step_name, _points.step > after
            )
        )

    def set_tail(self, job_id: str, name: str, offset: int) -> None:
        """Record how many bytes of a file of the job were read, in the unit that stores what they said."""
        rows.put(
            self.connection,
            schema.tails,
            [{"job_id": job_id, "name": name, "offset": offset}],
            replaced=("offset",),
        )

    def continued(self, job_id: str, step_name: str, at: WritersStart) -> None:
        """Record where the newest writer went on, in the unit that drops the points after it."""
        for name, value in zip(_of_writer(step_name), at, strict=True):
            self.set_tail(job_id, name, value)


def _of_writer(step_name: str) -> tuple[str, str]:
    """What is kept of the newest writer among the tails, in the order of `WritersStart`."""
    return f"{step_name}/continued.step", f"{step_name}/continued.generation"
