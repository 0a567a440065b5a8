"""What a chain of jobs may use before it stops."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What the chain may use; `None` = no limit."""

    max_retries: int = 3
    max_walltime: int | None = None
    """Seconds."""
    max_links_without_progress: int | None = None
    resumes: bool = True
    """Whether a job goes on with what is recorded (``resume_from_cache``); else it refuses it."""
