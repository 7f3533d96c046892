#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "comm/group_options.h"
#include "comm/process_group.h"

namespace gradsync::comm {

// Checks the rank, the number of ranks, the timeout and the number of threads in `options`. Throws
// InvalidInput, which names the backend, if one of them is out of its range.
void CheckOptions(std::string_view backend, const GroupOptions& options);

// Runs a collective of a group of one rank: copies the input to the output, or, for a barrier, does nothing.
void RunAlone(const Request& request);

// Computes the output of the collective `request` on rank `rank` from the inputs of all ranks, and writes the
// output into request.output. This process must be able to read all inputs. inputs[r] points to the input of
// rank r.
void RunFromInputs(const Request& request, int rank, std::span<std::byte* const> inputs);

// A Signature has the properties of a Request that must be equal on all ranks, except Request::waits and
// Request::within_host. Backend shm compares the signatures of all ranks, and throws if they differ.
struct Signature {
  int64_t sequence = 0;
  int64_t bytes = 0;
  Collective collective = Collective::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  model::DType dtype = model::DType::kU8;
  int32_t root = -1;

  Signature() = default;
  explicit Signature(const Request& request);
  bool operator==(const Signature&) const = default;
};
static_assert(std::is_trivially_copyable_v<Signature>);  // ranks send the bytes of signatures to each other

// Returns a text such as "all_reduce of 4 bytes i32 (sum)".
std::string ToString(const Signature& signature);
// Returns a text such as "rank 1 issues broadcast of 8 bytes f32 (root 0) where rank 0 issues all_reduce of 4
// bytes i32 (sum) (#3)".
std::string DescribeMismatch(int rank, const Signature& signature, int other_rank, const Signature& other);

// Returns the text of a CollectiveError: "rank 0: all_reduce #17 of 26214400 bytes (gloo) failed after 60.0
// s: CAUSE".
std::string DescribeFailure(int rank, const Signature& signature, std::string_view backend,
                            int64_t elapsed_ns, std::string_view cause);

}  // namespace gradsync::comm
