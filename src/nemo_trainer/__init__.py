"""The contract between a job and a training loop; standard library only, for it runs in foreign images."""
