"""The commands `nemo models chat|serve|export|push|fetch`, which entry points add to `nemo models`."""
