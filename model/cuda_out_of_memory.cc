#include "absl/strings/str_format.h"
#include "model/cuda_device.h"
#include "model/error.h"

namespace gradsync::model {
namespace {

// "1.50 GiB (1610612736 bytes)"; below a GiB in MiB.
std::string Describe(size_t bytes) {
  const bool is_large = bytes >= size_t{1} << 30;
  return absl::StrFormat("%.2f %s (%u bytes)", static_cast<double>(bytes) * (is_large ? 0x1p-30 : 0x1p-20),
                         is_large ? "GiB" : "MiB", bytes);
}

}  // namespace

CudaOutOfMemory::CudaOutOfMemory(int ordinal, size_t asked_bytes, size_t held_bytes, size_t free_bytes,
                                 size_t total_bytes)
    : CudaOutOfMemory(Join("out of memory on cuda:", ordinal, ": asked for ", Describe(asked_bytes),
                           ", held are ", Describe(held_bytes), ", free are ", Describe(free_bytes), " of ",
                           Describe(total_bytes))) {}

}  // namespace gradsync::model
