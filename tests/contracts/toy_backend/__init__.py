"""A training backend as another package would bring it: it counts words in place of training."""
