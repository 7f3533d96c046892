#ifndef GRADSYNC_BENCH_TRAINING_DDP_OPTIONS_H_
#define GRADSYNC_BENCH_TRAINING_DDP_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/training/options.h"
#include "model/tensor.h"
#include "model/transformer.h"

namespace gradsync::bench {

// What //bench:ddp takes on its command line.
struct DdpOptions : TrainingOptions {
  DdpOptions() { model = "tiny"; }

  std::optional<int64_t> num_layers, d_model, d_ff, num_heads, vocab_size,
      context_length;   // override the model's
  std::string weights;  // a file; empty: drawn from the seed

  int64_t bucket_bytes = int64_t{25} << 20;

  // Every combination is a case.
  std::vector<int64_t> batch_sizes = {4};  // sequences of one rank
  std::vector<int64_t> seq_lens = {128};
  std::string corpus;      // a text; empty: uniform tokens
  std::string batch_file;  // a fixed batch instead, whose shape is that of the only case

  void AddTo(FlagTable& flags) override;
  void Complete(const FlagTable& flags, const comm::World& world) override;
  TrainingSize Size() const override;

  // The named model with the overrides. Its context is as long as the longest sequence unless it is
  // overridden too.
  model::TransformerConfig model_config() const;
  int64_t longest_seq_len() const;
  // (batch, seq) of one rank in each case.
  std::vector<model::Shape> BatchShapes() const;
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_DDP_OPTIONS_H_
