"""The clusters of a service, see `nemo_helix_server.executors.slurm.connection`."""

from nemo_helix_server.executors.slurm.connection import ClusterAddress, ClusterConnections


def test_what_needs_the_same_host_shares_its_connection_whatever_its_folder_and_interpreter():
    connections = ClusterConnections()
    first = connections.of(ClusterAddress("lab", "/work/a", "python3"))
    second = connections.of(ClusterAddress("lab", "/work/b", "python3.11", ("module load python",)))
    other = connections.of(ClusterAddress("lab2", "/work/a", "python3"))
    assert first.host is second.host
    assert first.host is not other.host
    connections.close()
