#include "bench/training/tasks.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/peers/pytorch.h"
#include "bench/records/units.h"
#include "bench/training/batches.h"
#include "model/error.h"
#include "model/resnet.h"
#include "model/transformer.h"

namespace gradsync::bench {
namespace {

constexpr int64_t kImageChannels = 3;
// ResNet-50's rectifiers and batch norms make much of rounding errors: under PyTorch, with images of 64 to 96
// pixels and batches of 2 to 8, the gradients of f32 and of f64 differ by up to 0.04, where those of one rank
// and of all differ by 1.2 to 2. In bf16 those of PyTorch's autocast differ from gradsync's, and either's
// from f64's, by up to 1 or 2, which says nothing of a peer.
constexpr double kImagePeerTolerance = 0.25;

uint64_t SeedOf(const TrainingOptions& options) { return static_cast<uint64_t>(options.ranks.seed); }

BatchShape TokensOf(const model::Shape& shape) {
  return {shape, model::DType::kI32, shape, model::DType::kI32};
}

// What a transformer's records say of it, with overrides.
void SetTransformerConfig(const model::TransformerConfig& model, Fields& config) {
  config.Set("num_layers", model.num_layers);
  config.Set("d_model", model.d_model);
  config.Set("d_ff", model.d_ff);
  config.Set("num_heads", model.num_heads);
  config.Set("vocab_size", model.vocab_size);
}

// All strategies, with buckets of the size that `bucket_bytes` says; behind them each of PyTorch's ways that
// compares with one of them, once in each mode, with buckets of the size of the first.
std::vector<VariantSpec> VariantsOf(const TrainingOptions& options,
                                    const std::function<int64_t(const std::string&)>& bucket_bytes) {
  std::vector<VariantSpec> variants, peers;
  for (const std::string& strategy : options.strategies) {
    variants.push_back({strategy, bucket_bytes(strategy)});
    if (!options.peers.wanted()) continue;
    for (const std::string& peer : PeerStrategies({strategy}, options.peers.modes)) {
      if (std::ranges::count(peers, peer, &VariantSpec::peer) > 0) continue;
      peers.push_back({PeerName(peer), bucket_bytes(strategy), peer});
    }
  }
  variants.insert(variants.end(), peers.begin(), peers.end());
  return variants;
}

Fields ConfigOf(const DdpOptions& options, const model::Shape& shape) {
  Fields config;
  config.Set("model", options.model);
  config.Set("batch_size", shape[0]);
  config.Set("seq_len", shape[1]);
  SetTransformerConfig(options.model_config(), config);
  config.Set("data", !options.batch_file.empty() ? "batch_file"
                     : !options.corpus.empty()   ? "corpus"
                                                 : "uniform");
  config.Set("weights", options.weights.empty() ? "random" : "file");
  return config;
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

std::unique_ptr<BatchSource> MakeSource(const DdpOptions& options, int world_size) {
  const int64_t vocab_size = options.model_config().vocab_size;
  if (!options.batch_file.empty()) return BatchFileTokens(options.batch_file, vocab_size, world_size);
  if (options.corpus.empty()) return UniformTokens(vocab_size, SeedOf(options));
  return CorpusTokens(options.corpus, vocab_size, options.longest_seq_len(), SeedOf(options));
}

}  // namespace

TrainingTask MakeTask(const DdpOptions& options, const comm::World& world, const model::DevicePtr& device) {
  auto transformer = std::make_unique<model::Transformer>(options.model_config(), device,
                                                          options.element_type(), SeedOf(options));
  if (world.rank == 0 && !options.weights.empty()) {
    model::LoadParameters(transformer->parameters(), options.weights);
  }
  TrainingTask task = {"ddp", std::move(transformer), MakeSource(options, world.size), {}};
  for (const model::Shape& shape : options.BatchShapes()) {
    Case& the_case = task.cases.emplace_back();
    the_case.labels = {{"batch", std::to_string(shape[0])}, {"sequence", std::to_string(shape[1])}};
    the_case.batch = TokensOf(shape);
    the_case.positions = model::Numel(shape);
    the_case.variants = VariantsOf(options, [&](const auto&) { return options.bucket_bytes; });
    the_case.config = ConfigOf(options, shape);
    the_case.facts.Set("tokens_per_step", the_case.positions * world.size);
  }
  return task;
}

TrainingTask MakeTask(const CompareOptions& options, const comm::World& world,
                      const model::DevicePtr& device) {
  TrainingTask task;
  task.experiment = "compare";
  BatchShape batch;
  if (options.on_images()) {
    const model::ResNetConfig config = options.resnet_config();
    task.model = std::make_unique<model::ResNet>(config, device, options.element_type(), SeedOf(options));
    task.source = UniformImages(SeedOf(options));
    batch = {{options.batch_size, kImageChannels, options.image_size, options.image_size},
             options.gradient_type(),
             {options.batch_size, config.num_classes},
             options.gradient_type()};
  } else {
    const model::TransformerConfig config = options.transformer_config();
    task.model =
        std::make_unique<model::Transformer>(config, device, options.element_type(), SeedOf(options));
    task.source = UniformTokens(config.vocab_size, SeedOf(options));
    batch = TokensOf({options.batch_size, options.seq_len});
  }
  const bool bf16 = options.element_type() == model::DType::kBF16;
  for (const int64_t elements : options.buffer_elements) {
    Case& the_case = task.cases.emplace_back();
    the_case.labels = {{"buffer", FormatCount(elements)}};
    the_case.batch = batch;
    the_case.positions = options.batch_size * (options.on_images() ? 1 : options.seq_len);
    the_case.variants = VariantsOf(
        options, [&](const std::string& strategy) { return BucketBytes(options, strategy, elements); });
    for (VariantSpec& variant : the_case.variants) {
      if (!options.on_images() || variant.peer.empty()) continue;
      variant.min_tolerance = kImagePeerTolerance;
      variant.verifiable = !bf16;
    }
    the_case.config = ConfigOf(options, elements);
    the_case.facts.Set(options.on_images() ? "images_per_step" : "tokens_per_step",
                       the_case.positions * world.size);
  }
  return task;
}

}  // namespace gradsync::bench
