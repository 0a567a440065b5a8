"""The HTTP interface: routes that read a request, call the service and write its answer."""
