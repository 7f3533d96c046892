#include "bench/training/ddp_run.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/training/record.h"
#include "bench/training/token_source.h"
#include "model/transformer.h"

namespace gradsync::bench {
namespace {

std::unique_ptr<BatchSource> MakeTokenSource(const DdpOptions& options, int world_size) {
  const int64_t vocab_size = options.model_config().vocab_size;
  const uint64_t seed = static_cast<uint64_t>(options.ranks.seed);
  if (!options.batch_file.empty()) return BatchFileTokens(options.batch_file, vocab_size, world_size);
  if (options.corpus.empty()) return UniformTokens(vocab_size, seed);
  const int64_t longest = *std::max_element(options.seq_lens.begin(), options.seq_lens.end());
  return CorpusTokens(options.corpus, vocab_size, longest, seed);
}

std::unique_ptr<model::Model> MakeTransformer(const DdpOptions& options, const comm::World& world,
                                              const model::DevicePtr& device) {
  auto transformer = std::make_unique<model::Transformer>(
      options.model_config(), device, options.element_type(), static_cast<uint64_t>(options.ranks.seed));
  if (world.rank == 0 && !options.weights.empty()) {
    model::LoadParameters(transformer->parameters(), options.weights);
  }
  return transformer;
}

Fields ConfigOf(const DdpOptions& options, const Cell& cell) {
  Fields config;
  config.Set("model", options.model);
  config.Set("batch_size", cell.batch_size);
  config.Set("seq_len", cell.seq_len);
  SetTransformerConfig(options.model_config(), config);
  config.Set("data", !options.batch_file.empty() ? "batch_file"
                     : !options.corpus.empty()   ? "corpus"
                                                 : "uniform");
  config.Set("weights", options.weights.empty() ? "random" : "file");
  return config;
}

Contest ContestIn(const Cell& cell, const DdpOptions& options, const comm::World& world) {
  const model::Shape shape = {cell.batch_size, cell.seq_len};
  Contest contest;
  contest.place = {{"batch", std::to_string(cell.batch_size)}, {"sequence", std::to_string(cell.seq_len)}};
  contest.batch = {shape, model::DType::kI32, shape, model::DType::kI32};
  contest.positions = cell.batch_size * cell.seq_len;
  for (const std::string& strategy : options.strategies) {
    contest.contenders.push_back({strategy, options.bucket_bytes});
  }
  if (options.peers.wanted()) AddPeers(options.peers.modes, contest);
  contest.config = ConfigOf(options, cell);
  contest.facts.Set("tokens_per_step", contest.positions * world.size);
  return contest;
}

}  // namespace

TrainingTask MakeDdpTask(const DdpOptions& options, const comm::World& world,
                         const model::DevicePtr& device) {
  TrainingTask task;
  task.experiment = "ddp";
  task.model = MakeTransformer(options, world, device);
  task.source = MakeTokenSource(options, world.size);
  for (const Cell& cell : Cells(options)) task.contests.push_back(ContestIn(cell, options, world));
  return task;
}

}  // namespace gradsync::bench
