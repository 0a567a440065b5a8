"""The contract between a job and a training loop: standard library only, so that it runs in foreign images."""
