#include "bench/training/batches.h"
#include "model/base/error.h"
#include "tests/fuzz/fuzz.h"

// The input is a text. If the text is accepted, it must fill a batch with ids of the vocabulary.
int gradsync::LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kVocabSize = 300;
  const fuzz::File file(fuzz::Text(data, size));
  const auto fill = [&](bench::BatchSource& source, const model::Shape& shape) {
    const model::DevicePtr device = model::CpuDevice();
    const model::Batch batch{.inputs = model::Tensor::Empty(device, shape, model::DType::kI32),
                             .targets = model::Tensor::Empty(device, shape, model::DType::kI32)};
    source.Fill(0, 0, batch);
    for (const model::Tensor& tokens : {batch.inputs, batch.targets}) {
      for (const int32_t id : tokens.ToVector<int32_t>()) fuzz::Expect(id >= 0 && id < kVocabSize);
    }
  };
  try {
    fill(*bench::CorpusTokens(file.path(), kVocabSize, 8, 1), {2, 8});
  } catch (const InvalidInput&) {
  }
  return 0;
}
