#include <cuda_runtime.h>  // IWYU pragma: export
