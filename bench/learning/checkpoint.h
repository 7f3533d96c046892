#ifndef GRADSYNC_BENCH_LEARNING_CHECKPOINT_H_
#define GRADSYNC_BENCH_LEARNING_CHECKPOINT_H_

#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/optimizer.h"

// Checkpoints of a training: one file for each rank, which appears when it is complete.
namespace gradsync::bench {

// What a checkpoint says of itself, by name. "rank", "world_size" and "steps" are always there.
using CheckpointFacts = std::map<std::string, std::string>;

// "DIR/core@shm.seed0.rank1.safetensors"
std::string CheckpointPath(const std::string& directory, const std::string& variant, int64_t seed, int rank);

// Throws std::runtime_error if it cannot be written.
void SaveCheckpoint(const std::string& path, std::span<const model::NamedTensor> tensors,
                    const CheckpointFacts& facts);

// The facts of the file at `path`. Throws InvalidInput, in one line that begins with --resume and the file,
// if it is no whole checkpoint, or one of those `expected` has another value.
CheckpointFacts ReadCheckpointFacts(const std::string& path, const CheckpointFacts& expected);

// Fills the tensors from the first of the files, which is this rank's own. One that it does not have, such as
// "exp_avg.NAME[BEGIN:END]", is put together of parts of NAME in all of them. Throws InvalidInput likewise if
// one is missing, or of another shape or dtype.
void LoadCheckpoint(const std::vector<std::string>& paths, std::span<const model::NamedTensor> tensors);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LEARNING_CHECKPOINT_H_
