"""The error of a stage that cannot be made: raised by schedules and code generators, told by the stage."""


class Unsupported(Exception):
    """A kernel for which a stage cannot be made; the message is a sentence that the user reads."""
