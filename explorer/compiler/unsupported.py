"""Why a stage cannot be made: raised by schedules and code generators, or by who bounds a compilation, and told by the
stage."""


class Unsupported(Exception):
    """A kernel for which a stage cannot be made; the message is a sentence that the user reads."""


class OutOfBudget(Exception):
    """A compilation has taken what it may, wherever it is; the message is a sentence that says what that was."""

    heeded = False
    """Whether somebody has stopped for it, and what goes on only tells what was made by then."""
