"""The one exception class of deepjit."""


class Error(RuntimeError):
    """A failure with a stable number.

    code: 203, name: "SHAPE_MISMATCH", message: one line, hint: what to do, or "". docs/errors.md lists all of them.
    """

    def __init__(self, code: int, name: str, message: str, hint: str = ""):
        super().__init__(code, name, message, hint)
        self.code = code
        self.name = name
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        text = f"error[E{self.code} {self.name}]: {self.message}"
        return f"{text}\nhint: {self.hint}" if self.hint else text
