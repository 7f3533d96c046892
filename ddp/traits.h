#ifndef GRADSYNC_DDP_TRAITS_H_
#define GRADSYNC_DDP_TRAITS_H_

#include <string_view>

namespace gradsync::ddp {

// How far the gradients of all ranks are those of a single process on the whole batch.
enum class Agreement {
  kExact,   // up to the rounding of sums; bitwise the same on all ranks
  kLossy,   // approximately; bitwise the same on all ranks
  kDrifts,  // not at all: replicas part
};

// "exact", "lossy", "drifts".
constexpr std::string_view Name(Agreement agreement) {
  return agreement == Agreement::kExact ? "exact" : agreement == Agreement::kLossy ? "lossy" : "drifts";
}

// What others need to know of a strategy. Its own file defines them, and no other file knows its name.
struct Traits {
  std::string_view name;     // also the file's, the flag's and the records'
  std::string_view summary;  // one line, for people
  Agreement agreement = Agreement::kExact;
  bool communicates = true;    // if not, it is the floor that the cost of the others is measured from
  bool overlaps = false;       // communicates during backward
  bool has_buckets = false;    // takes StrategyOptions::bucket_bytes
  double gradient_copies = 0;  // memory of its buffers, in copies of all gradients, at most
  // What PyTorch calls the way that compares with it: "ddp" is DistributedDataParallel, "ddp_view" the same
  // with gradient_as_bucket_view; the others are loops over parameters.
  std::string_view pytorch_twin;
  // The size of buckets in the published experiment counts bytes, and not elements as the others' does.
  bool published_in_bytes = false;
};

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_TRAITS_H_
