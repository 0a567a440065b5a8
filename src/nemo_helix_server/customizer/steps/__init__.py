"""Programs of the steps before and after training; each reads its config and leaves a sentence on failure."""
