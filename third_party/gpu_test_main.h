#pragma once

// The main function of every cuda_test. A test with its own main function calls this function from it.
//
// Runs the tests if there is a GPU, and returns their status. If CUDA finds no GPU, prints the reason in one
// line on stderr, and returns 1. With `--gpus=N` and fewer than N GPUs, prints this fact and returns 0.
int RunGpuTests(int argc, char** argv);
