from explorer.compiler.ir.kernels import ScheduledKernel


def verify_scheduled(kernel: ScheduledKernel) -> None: ...
