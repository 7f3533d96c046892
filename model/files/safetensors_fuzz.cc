#include "model/base/error.h"
#include "model/files/safetensors.h"
#include "tests/fuzz/fuzz.h"

// If the file opens, it must have the length that its header states, and every tensor must load.
int gradsync::LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fuzz::File file(fuzz::Text(data, size));
  try {
    const auto opened = model::SafetensorsFile::Open(file.path());
    for (const auto& entry : opened.entries()) {
      fuzz::Expect(entry.offset_bytes + entry.size_bytes <= size);
      const model::Tensor tensor = opened.Load(entry.name, model::CpuDevice());
      fuzz::Expect(tensor.shape() == entry.shape && tensor.dtype() == entry.dtype);
    }
  } catch (const InvalidInput& error) {
    fuzz::Expect(std::string_view(error.what()).find(file.path()) != std::string_view::npos);
  }
  return 0;
}
