"""From a call to a report: the request, the arguments, the launch, what was found."""
