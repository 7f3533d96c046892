#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace gradsync {

// libFuzzer calls this function with any bytes. The function returns 0, and ends the program if a check
// fails.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace fuzz {

inline std::string_view Text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Ends the program unless `holds`, so that the fuzzer keeps the input.
inline void Expect(bool holds) {
  if (!holds) std::abort();
}

// A file in memory that contains the bytes.
class File {
 public:
  explicit File(std::string_view bytes) : descriptor_(memfd_create("input", MFD_CLOEXEC)) {
    Expect(descriptor_ >= 0 &&
           write(descriptor_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  ~File() { close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  const int descriptor_;
};

}  // namespace fuzz
}  // namespace gradsync
