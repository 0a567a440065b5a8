"""Jobs as they travel between client and service: requests, responses, statuses, names and watch events."""
