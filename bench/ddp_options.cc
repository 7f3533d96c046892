#include "bench/ddp_options.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <system_error>

#include "bench/token_source.h"
#include "comm/factory.h"
#include "ddp/factory.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

constexpr int64_t kMaxSteps = 10'000'000;
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

void CheckDumpPath(const std::string& path) {
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  std::error_code error;
  Require(std::filesystem::is_directory(directory, error), "--dump_grads=", path, ": there is no directory ",
          directory.string());
}

}  // namespace

DdpOptions::DdpOptions() : strategies(ddp::StrategyNames()) {}

void DdpOptions::AddTo(FlagTable& flags) {
  flags.AddChoice("model", &model, model::TransformerNames(), "The model that is trained.");
  flags.AddOptionalInt("num_layers", &num_layers, "Instead of the model's number of blocks.");
  flags.AddOptionalInt("d_model", &d_model, "Instead of the model's width.");
  flags.AddOptionalInt("d_ff", &d_ff, "Instead of the model's feed-forward width.");
  flags.AddOptionalInt("num_heads", &num_heads, "Instead of the model's number of attention heads.");
  flags.AddOptionalInt("vocab_size", &vocab_size, "Instead of the model's vocabulary, 10000.");
  flags.AddOptionalInt("context_length", &context_length, "The longest sequence the model takes.");
  flags.AddChoice("dtype", &dtype, {"f32", "f64"}, "The type of weights, activations and gradients.");
  flags.AddChoice("optimizer", &optimizer, {"adamw", "sgd"}, "What changes the weights.");
  flags.AddPositiveDouble("learning_rate", &learning_rate, "The optimizer's.");
  flags.AddPath("weights", &weights, "a safetensors file",
                "Initial weights by name, instead of random ones.");

  flags.AddChoiceList("strategies", &strategies, ddp::StrategyNames(),
                      "Ways of averaging gradients to compare.");
  flags.AddChoice("backend", &backend, comm::BackendNames(), "What moves the gradients.");
  flags.AddByteCount("bucket_bytes", &bucket_bytes,
                     "Capacity of a bucket, for the strategies that have buckets.");

  flags.AddIntList("batch_size", &batch_sizes, 1, kMaxSize, "Sequences in the batch of one rank.");
  flags.AddIntList("seq_len", &seq_lens, 1, kMaxSize, "Tokens in a sequence.");
  flags.AddPath("corpus", &corpus, "a text file", "Train on its bytes as tokens, instead of random ones.");
  flags.AddPath("batch_file", &batch_file, "a safetensors file with inputs and targets",
                "Train on this batch in every step; each rank takes its part of the rows.");

  flags.AddInt("warmup_steps", &warmup_steps, 0, kMaxSteps,
               "Untimed steps of each strategy before the timed ones.");
  flags.AddInt("steps", &steps, 1, kMaxSteps, "Timed steps of each strategy, in each cell.");
  flags.AddChoice(
      "order", &order, {"interleaved", "blocks"},
      "interleaved: in every round each strategy takes one step, in random order. blocks: one strategy "
      "after the other.");
  ranks.AddTo(flags);

  flags.AddBool("verify", &verify,
                "After timing, compare each strategy with one process that trains on the whole batch.");
  flags.AddBool("trace", &trace, "Write what happened when in the timed steps, for ui.perfetto.dev.");
  flags.AddBool("profile", &profile, "Print where the time of the backward pass goes, by operation.");
  flags.AddPath(
      "dump_grads", &dump_grads, "a file",
      "Write the averaged gradients and the loss of a first step with the first strategy, as safetensors.");
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
  MakeDevice(options.ranks, world);
  if (!options.corpus.empty()) {
    CorpusTokens(options.corpus, options.model_config().vocab_size,
                 *std::max_element(options.seq_lens.begin(), options.seq_lens.end()), 0);
  }
  if (!options.dump_grads.empty()) CheckDumpPath(options.dump_grads);
}

}  // namespace gradsync::bench
