"""The driver's error."""


class CUDADriverError(RuntimeError):
    """What the driver API raises."""
