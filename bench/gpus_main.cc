// Lists the GPUs that CUDA can use on this machine, one per line.

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "model/base/standard_streams.h"
#include "model/base/version.h"
#include "model/tensor/cuda_device.h"

namespace {

int Run(int argc, char** argv) {
  using gradsync::model::CudaDevice;
  if (argc > 1) {
    if (std::string_view(argv[1]) == "--version") {
      std::printf("gpus of gradsync %s\n", std::string(gradsync::kVersion).c_str());
      return 0;
    }
    const bool asks = std::string_view(argv[1]) == "--help";
    std::fprintf(asks ? stdout : stderr,
                 "gpus lists the GPUs that CUDA can use here, one a line. It takes no flags.\n");
    return asks ? 0 : 2;
  }
  try {
    const int count = gradsync::model::CudaDeviceCount();
    // If there is no GPU, the device's constructor throws the reason.
    for (int i = 0; i < (count == 0 ? 1 : count); ++i) {
      const CudaDevice gpu(i);
      std::printf(
          "cuda:%d  %s, %.1f GiB, compute capability %d.%d, %s, driver for CUDA %s, runtime %s\n", i,
          gpu.product_name().c_str(), static_cast<double>(gradsync::model::CudaMemoryBytes(i)) / (1 << 30),
          gpu.compute_capability() / 10, gpu.compute_capability() % 10, gpu.uuid().c_str(),
          gradsync::model::CudaDriverVersion().c_str(), gradsync::model::CudaRuntimeVersion().c_str());
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  gradsync::KeepStandardStreams();
  return gradsync::WithWrittenOutput(Run(argc, argv));
}
