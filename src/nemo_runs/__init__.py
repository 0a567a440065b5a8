"""What every run needs: durable files, a journal, processes, a supervisor. Standard library only."""
