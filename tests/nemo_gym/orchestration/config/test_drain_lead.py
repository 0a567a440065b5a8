"""When a job is asked to drain."""

import pytest

from nemo_gym.orchestration.config.drain_lead import drain_lead


@pytest.mark.parametrize(
    ("walltime", "lead"), [(None, 0), (10, 5), (60, 20), (600, 60), (3600, 120), (48 * 3600, 120)]
)
def test_a_job_is_asked_to_drain_a_while_before_its_walltime(walltime, lead):
    assert drain_lead(walltime) == lead
