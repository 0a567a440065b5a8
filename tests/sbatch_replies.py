"""What sites print around the reply of ``sbatch --parsable``, read alike by Python and by the job script."""

_MAINTENANCE = "*** Maintenance on 12 March ***\nYour budget: 5000\n"
_LUA = "sbatch: Verify job submission ...\nsbatch: Using default partition 'gpu'\n"

REPLIES: list[tuple[str, str, str, bool]] = [
    ("1234\n", "1234", "", True),
    ("1234;gpu-west\n", "1234", "gpu-west", True),
    ("\n  1234\r\n", "1234", "", True),
    (f"{_MAINTENANCE}1234\nbye 99 now\n", "1234", "", False),
    (f"{_MAINTENANCE}1234;west\n", "1234", "west", False),
    (f"{_MAINTENANCE}Submitted batch job 1234\n", "1234", "", False),
    (f"{_LUA}sbatch: Submitted batch job 1234\n", "1234", "", False),
    ("Submitted batch job 1234 on cluster west\n", "1234", "west", True),
    ("Submitted batch job 1234 on cluster west\n1234\n", "1234", "west", False),
    ("1234\n1234;west\n", "1234", "west", False),
    # the hours that are left of a budget, alone or beside the id
    ("Remaining hours of lab:\n5000\n", "5000", "", False),
    ("1234\n5000\n", "", "", False),
    ("777;lab\n1234\n", "", "", False),
    ("Submitted batch job 1234\n5000\n", "", "", False),
    ("Submitted batch job 12\nSubmitted batch job 1234\n", "", "", False),
    # nothing of these is an id
    ("job id: 1234\n", "", "", False),
    ("hours left: 1234\n", "", "", False),
    ("See ticket: Submitted batch job 1234 fails\n", "", "", False),
    ("Submitted batch job 1234_5\n", "", "", False),
    (f"{_MAINTENANCE}no job\n", "", "", False),
    ("", "", "", False),
    ("0\n", "", "", False),
    ("-5\n", "", "", False),
    ("1234;\n", "", "", False),
    ("1234; rm -rf x\n", "", "", False),
]
"""Text, number (empty: it must not be guessed), cluster, and whether nothing else was printed."""
