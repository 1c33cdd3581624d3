"""What CuPy raises when NVRTC refuses a source."""


class CompileException(Exception):
    """The compiler's log."""

    def __init__(self, msg, source, name, options):
        self._msg, self.source, self.name, self.options = msg, source, name, options
        super().__init__(msg)
