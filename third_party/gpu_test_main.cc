#include "third_party/gpu_test_main.h"

int main(int argc, char** argv) { return RunGpuTests(argc, argv); }
