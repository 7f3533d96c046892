#include "bench/training/ddp_options.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "bench/training/batches.h"
#include "bench/training/memory.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

constexpr int64_t kMaxSize = std::numeric_limits<int32_t>::max();

}  // namespace

void DdpOptions::AddTo(FlagTable& flags) {
  flags.BeginGroup("Model");
  flags.Add("model", &model, OneOf(model::TransformerNames()), "The model that is trained.");
  flags.Add("num_layers", &num_layers, Integer(1), "Instead of the model's number of blocks.");
  flags.Add("d_model", &d_model, Integer(1), "Instead of the model's width.");
  flags.Add("d_ff", &d_ff, Integer(1), "Instead of the model's feed-forward width.");
  flags.Add("num_heads", &num_heads, Integer(1), "Instead of the model's number of attention heads.");
  flags.Add("vocab_size", &vocab_size, Integer(1), "Instead of the model's vocabulary, 10000.");
  flags.Add("context_length", &context_length, Integer(1), "The longest sequence the model takes.");
  flags.Add("weights", &weights, Path("a safetensors file"),
            "Initial weights by name, instead of random ones.");

  flags.BeginGroup("Buckets and batches");
  flags.Add("bucket_bytes", &bucket_bytes, Bytes(),
            "Capacity of a bucket, for the strategies that have buckets.");

  flags.Add("batch_size", &batch_sizes, Integer(1, kMaxSize), "Sequences in the batch of one rank.");
  flags.Add("seq_len", &seq_lens, Integer(1, kMaxSize), "Tokens in a sequence.");
  flags.Add("corpus", &corpus, Path("a text file"), "Train on its bytes as tokens, instead of random ones.");
  flags.Add("batch_file", &batch_file, Path("a safetensors file with inputs and targets"),
            "Train on this batch in every step; each rank takes its part of the rows.");

  TrainingOptions::AddTo(flags);
}

model::TransformerConfig DdpOptions::model_config() const {
  model::TransformerConfig config = model::TransformerByName(model);
  config.num_layers = num_layers.value_or(config.num_layers);
  config.d_model = d_model.value_or(config.d_model);
  config.d_ff = d_ff.value_or(config.d_ff);
  config.num_heads = num_heads.value_or(config.num_heads);
  config.vocab_size = vocab_size.value_or(config.vocab_size);
  config.context_length = context_length.value_or(longest_seq_len());
  return config;
}

int64_t DdpOptions::longest_seq_len() const { return std::ranges::max(seq_lens); }

std::vector<model::Shape> DdpOptions::BatchShapes() const {
  std::vector<model::Shape> shapes;
  for (const int64_t batch_size : batch_sizes) {
    for (const int64_t seq_len : seq_lens) shapes.push_back({batch_size, seq_len});
  }
  return shapes;
}

void DdpOptions::Complete(const FlagTable& flags, const comm::World& world) {
  if (!batch_file.empty()) {
    for (const char* const name : {"batch_size", "seq_len", "corpus"}) {
      Require(!flags.given(name), "--", name,
              ": cannot be given beside --batch_file, which says what the batch is");
    }
    const model::Shape rows = ReadBatchFileShape(batch_file, world.size);
    batch_sizes = {rows[0] / world.size};
    seq_lens = {rows[1]};
  }
  const model::TransformerConfig config = model_config();
  Validate(config);
  Require(longest_seq_len() <= config.context_length, "--seq_len=", longest_seq_len(),
          ": the model's context has ", config.context_length, " tokens");
  TrainingOptions::Complete(flags, world);
  if (!corpus.empty()) CorpusTokens(corpus, config.vocab_size, longest_seq_len(), 0);
}

TrainingSize DdpOptions::Size() const {
  return SizeOf(model_config(), std::ranges::max(batch_sizes) * longest_seq_len());
}

}  // namespace gradsync::bench
