"""The access unit, the execute unit and the queues between them, and the interpreter that runs both."""
