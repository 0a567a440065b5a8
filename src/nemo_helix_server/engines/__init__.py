"""The environments of the training engines: one interpreter each, since their pins clash."""
