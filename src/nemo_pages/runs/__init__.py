"""The page Runs: evaluations and jobs in one list, from a table that their observers fill."""
