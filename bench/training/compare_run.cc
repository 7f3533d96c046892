#include "bench/training/compare_run.h"

#include <cstdint>
#include <memory>
#include <string>

#include "bench/records/units.h"
#include "bench/training/image_source.h"
#include "bench/training/record.h"
#include "bench/training/token_source.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

constexpr int64_t kImageChannels = 3;
// ResNet-50's rectifiers and batch norms make much of rounding errors: under PyTorch, with images of 64 to 96
// pixels and batches of 2 to 8, the gradients of f32 and of f64 differ by up to 0.04, where those of one rank
// and of all differ by 1.2 to 2.
constexpr double kImagePeerTolerance = 0.25;
// In bf16, gradients that are rounded otherwise alone (see Tolerance) make 0.11 in the first layers, of
// images of 64 pixels in batches of 2. Activations that are rounded otherwise make as much as there is: those
// of PyTorch's autocast differ from gradsync's, and either's from f64's, by up to 1 or 2. That says nothing
// of a peer.
constexpr double kImageBF16Tolerance = 0.25;

std::unique_ptr<model::Model> MakeModel(const CompareOptions& options, const model::DevicePtr& device) {
  const auto seed = static_cast<uint64_t>(options.ranks.seed);
  if (options.on_images()) {
    return std::make_unique<model::ResNet>(options.resnet_config(), device, options.element_type(), seed);
  }
  return std::make_unique<model::Transformer>(options.transformer_config(), device, options.element_type(),
                                              seed);
}

std::unique_ptr<BatchSource> MakeSource(const CompareOptions& options) {
  const auto seed = static_cast<uint64_t>(options.ranks.seed);
  if (options.on_images()) return UniformImages(seed);
  return UniformTokens(options.transformer_config().vocab_size, seed);
}

BatchShape ShapeOf(const CompareOptions& options) {
  if (!options.on_images()) {
    const model::Shape shape = {options.batch_size, options.seq_len};
    return {shape, model::DType::kI32, shape, model::DType::kI32};
  }
  return {{options.batch_size, kImageChannels, options.image_size, options.image_size},
          options.gradient_type(),
          {options.batch_size, options.resnet_config().num_classes},
          options.gradient_type()};
}

Fields ConfigOf(const CompareOptions& options, int64_t buffer_elements) {
  Fields config;
  // A narrower model is another one, in tables too.
  config.Set("model", options.width ? Join(options.model, " of width ", *options.width) : options.model);
  config.Set("batch_size", options.batch_size);
  if (options.on_images()) {
    config.Set("image_size", options.image_size);
    config.Set("width", options.resnet_config().width);
  } else {
    config.Set("seq_len", options.seq_len);
    SetTransformerConfig(options.transformer_config(), config);
  }
  config.Set("units", options.units);
  config.Set("buffer_elements", buffer_elements);
  config.Set("data", "uniform");
  return config;
}

Contest ContestAt(int64_t buffer_elements, const CompareOptions& options, const comm::World& world) {
  Contest contest;
  contest.place = {{"buffer", FormatElementCount(buffer_elements)}};
  contest.batch = ShapeOf(options);
  contest.positions = options.batch_size * (options.on_images() ? 1 : options.seq_len);
  for (const std::string& strategy : options.strategies) {
    contest.contenders.push_back({strategy, BucketBytes(options, strategy, buffer_elements)});
  }
  if (options.peers.wanted()) AddPeers(options.peers.modes, contest);
  if (options.on_images()) {
    const bool bf16 = options.element_type() == model::DType::kBF16;
    contest.min_tolerance = bf16 ? kImageBF16Tolerance : 0;
    contest.peer_tolerance = kImagePeerTolerance;
    contest.verify_peers = !bf16;
  }
  contest.config = ConfigOf(options, buffer_elements);
  contest.facts.Set(options.on_images() ? "images_per_step" : "tokens_per_step",
                    contest.positions * world.size);
  return contest;
}

}  // namespace

TrainingTask MakeCompareTask(const CompareOptions& options, const comm::World& world,
                             const model::DevicePtr& device) {
  TrainingTask task;
  task.experiment = "compare";
  task.model = MakeModel(options, device);
  task.source = MakeSource(options);
  for (const int64_t elements : options.buffer_elements) {
    task.contests.push_back(ContestAt(elements, options, world));
  }
  return task;
}

}  // namespace gradsync::bench
