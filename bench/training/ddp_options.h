#ifndef GRADSYNC_BENCH_TRAINING_DDP_OPTIONS_H_
#define GRADSYNC_BENCH_TRAINING_DDP_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/launch/flags.h"
#include "bench/peers/options.h"
#include "bench/training/options.h"
#include "comm/world.h"
#include "model/transformer.h"

namespace gradsync::bench {

// What //bench:ddp takes on its command line.
struct DdpOptions : TrainingOptions {
  std::string model = "tiny";
  std::optional<int64_t> num_layers, d_model, d_ff, num_heads, vocab_size,
      context_length;   // override the model's
  std::string weights;  // a file; empty: drawn from the seed

  int64_t bucket_bytes = int64_t{25} << 20;

  // Every combination is a cell: all strategies are measured in one before the next begins.
  std::vector<int64_t> batch_sizes = {4};  // sequences of one rank
  std::vector<int64_t> seq_lens = {128};
  std::string corpus;      // a text; empty: uniform tokens
  std::string batch_file;  // a fixed batch instead

  PeerOptions peers;

  void AddTo(FlagTable& flags);

  // The named model with the overrides. Its context is as long as the longest sequence unless it is
  // overridden too.
  model::TransformerConfig model_config() const;
};

// One combination of batch size and sequence length.
struct Cell {
  int64_t batch_size = 0;  // of one rank
  int64_t seq_len = 0;
};
std::vector<Cell> Cells(const DdpOptions& options);

// Takes the shape of --batch_file, if there is one, for the only cell. Throws InvalidInput if the flags do
// not fit together, a file that they name cannot be used, or this build has not the device. Reads no tensor.
// Call it once, after Parse, in every process.
void CompleteDdpOptions(const FlagTable& flags, const comm::World& world, DdpOptions& options);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_DDP_OPTIONS_H_
