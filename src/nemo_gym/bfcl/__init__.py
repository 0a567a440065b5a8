"""The Berkeley Function Calling Leaderboard: its questions, its conversations, and its own checkers."""
