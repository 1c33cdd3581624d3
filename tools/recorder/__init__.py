"""Recording a GPU."""
