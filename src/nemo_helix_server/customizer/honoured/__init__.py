"""Which fields of the input specs are done here and which are not, as data, by backend."""
