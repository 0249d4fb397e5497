"""The compiler: pure Python with Lark and NumPy; it imports nothing of the machine, the runtime or the web."""
