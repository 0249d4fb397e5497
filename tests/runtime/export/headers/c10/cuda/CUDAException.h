#pragma once
#define C10_CUDA_CHECK(call) TORCH_CHECK((call) == 0, #call)
