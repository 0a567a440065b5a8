"""How processes of one training are started, and what they end with together."""

import pytest

from nemo_engines import launching


def test_a_single_node_meets_nobody():
    assert launching._meeting(1, {"MASTER_ADDR": "n1"}) == ["--standalone"]


def test_several_nodes_meet_where_the_environment_says():
    environ = {"NODE_RANK": "1", "MASTER_ADDR": "n1", "MASTER_PORT": "20007"}
    assert launching._meeting(2, environ) == [
        "--nnodes=2",
        "--node-rank=1",
        "--master-addr=n1",
        "--master-port=20007",
    ]


@pytest.mark.parametrize(
    ("codes", "together"), [([75, 75], 75), ([75, 1], 1), ([-15, 75], 75), ([-15, -9], 137), ([0, -15], 1)]
)
def test_a_reason_goes_before_a_signal_and_a_pause_is_everyones(codes, together):
    assert launching.exit_code(codes) == together
