#include "bench/training/image_source.h"

#include "model/random.h"

namespace gradsync::bench {
namespace {

class Uniform : public BatchSource {
 public:
  explicit Uniform(uint64_t seed) : seed_(seed) {}

  void Fill(int rank, int64_t step, const model::Tensor& inputs, const model::Tensor& targets) override {
    const uint64_t stream = BatchStream(rank, step);
    model::FillUniform(inputs, 0, 1, seed_, stream);
    model::FillUniform(targets, 0, 1, seed_, stream + 1);
  }

 private:
  const uint64_t seed_;
};

}  // namespace

std::unique_ptr<BatchSource> UniformImages(uint64_t seed) { return std::make_unique<Uniform>(seed); }

}  // namespace gradsync::bench
