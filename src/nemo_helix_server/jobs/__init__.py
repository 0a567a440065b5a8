"""What a job is: its states, what may be asked of it when, and the service that does so."""
