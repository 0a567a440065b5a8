"""Which file system a folder is on, from the kernel's table of mounts."""

from pathlib import Path

import pytest

from nemo_helix_server.storage import filesystem_kind

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/fast ext4 rw 0 0
fs /lustre/my\\040data lustre rw 0 0
tmpfs /tmp tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind", "network"),
    [
        ("/home/me/.local/share/nhx", "nfs4", True),
        ("/home", "nfs4", True),
        ("/homework", "ext4", False),
        ("/home/fast/x", "ext4", False),
        ("/lustre/my data/x", "lustre", True),
        ("/tmp/x", "tmpfs", False),
    ],
)
def test_the_nearest_mount_counts(path, kind, network):
    assert filesystem_kind.kind(Path(path), MOUNTS) == kind
    assert filesystem_kind.is_network(Path(path), MOUNTS) is network


def test_where_nothing_can_be_told_nothing_is_claimed():
    assert filesystem_kind.kind(Path("/x"), "") is None
    assert not filesystem_kind.is_network(Path("/x"), "garbage\n\n")


def test_this_machine_s_own_table_can_be_read(tmp_path):
    assert filesystem_kind.kind(tmp_path / "not" / "there") is not None
