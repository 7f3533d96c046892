#include "bench/training/ddp_options.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "bench/training/token_source.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

constexpr int64_t kMaxSize = std::numeric_limits<int32_t>::max();

void TakeBatchFileShape(const FlagTable& flags, const comm::World& world, DdpOptions& options) {
  for (const char* const name : {"batch_size", "seq_len", "corpus"}) {
    Require(!flags.given(name), "--", name,
            ": cannot be given beside --batch_file, which says what the batch is");
  }
  const BatchFileShape shape = ReadBatchFileShape(options.batch_file);
  Require(shape.rows % world.size == 0, "--batch_file=", options.batch_file, ": found ", shape.rows,
          " rows, expected a multiple of the ", world.size, " ranks");
  options.batch_sizes = {shape.rows / world.size};
  options.seq_lens = {shape.seq_len};
}

void CheckModel(const DdpOptions& options) {
  const model::TransformerConfig config = options.model_config();
  Validate(config);
  const int64_t longest = *std::max_element(options.seq_lens.begin(), options.seq_lens.end());
  Require(longest <= config.context_length, "--seq_len=", longest, ": the model's context has ",
          config.context_length, " tokens");
}

}  // namespace

void DdpOptions::AddTo(FlagTable& flags) {
  flags.AddChoice("model", &model, model::TransformerNames(), "The model that is trained.");
  flags.AddOptionalInt("num_layers", &num_layers, "Instead of the model's number of blocks.");
  flags.AddOptionalInt("d_model", &d_model, "Instead of the model's width.");
  flags.AddOptionalInt("d_ff", &d_ff, "Instead of the model's feed-forward width.");
  flags.AddOptionalInt("num_heads", &num_heads, "Instead of the model's number of attention heads.");
  flags.AddOptionalInt("vocab_size", &vocab_size, "Instead of the model's vocabulary, 10000.");
  flags.AddOptionalInt("context_length", &context_length, "The longest sequence the model takes.");
  flags.AddPath("weights", &weights, "a safetensors file",
                "Initial weights by name, instead of random ones.");

  flags.AddByteCount("bucket_bytes", &bucket_bytes,
                     "Capacity of a bucket, for the strategies that have buckets.");

  flags.AddIntList("batch_size", &batch_sizes, 1, kMaxSize, "Sequences in the batch of one rank.");
  flags.AddIntList("seq_len", &seq_lens, 1, kMaxSize, "Tokens in a sequence.");
  flags.AddPath("corpus", &corpus, "a text file", "Train on its bytes as tokens, instead of random ones.");
  flags.AddPath("batch_file", &batch_file, "a safetensors file with inputs and targets",
                "Train on this batch in every step; each rank takes its part of the rows.");

  TrainingOptions::AddTo(flags);
  peers.AddTo(flags);
}

model::TransformerConfig DdpOptions::model_config() const {
  model::TransformerConfig config = model::TransformerByName(model);
  config.num_layers = num_layers.value_or(config.num_layers);
  config.d_model = d_model.value_or(config.d_model);
  config.d_ff = d_ff.value_or(config.d_ff);
  config.num_heads = num_heads.value_or(config.num_heads);
  config.vocab_size = vocab_size.value_or(config.vocab_size);
  config.context_length = context_length.value_or(*std::max_element(seq_lens.begin(), seq_lens.end()));
  return config;
}

std::vector<Cell> Cells(const DdpOptions& options) {
  std::vector<Cell> cells;
  for (const int64_t batch_size : options.batch_sizes) {
    for (const int64_t seq_len : options.seq_lens) cells.push_back({batch_size, seq_len});
  }
  return cells;
}

void CompleteDdpOptions(const FlagTable& flags, const comm::World& world, DdpOptions& options) {
  if (!options.batch_file.empty()) TakeBatchFileShape(flags, world, options);
  CheckModel(options);
  CheckTrainingOptions(options, world);
  CheckPeerOptions(options.peers, options.dtype);
  if (!options.corpus.empty()) {
    CorpusTokens(options.corpus, options.model_config().vocab_size,
                 *std::max_element(options.seq_lens.begin(), options.seq_lens.end()), 0);
  }
}

}  // namespace gradsync::bench
