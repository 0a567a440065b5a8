"""Services of a job: the ports they listen on, when they are healthy, and how that is tried."""
