// Without NVTX, no program loads this library, so it is empty.
