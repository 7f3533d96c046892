#ifndef GRADSYNC_COMM_QUEUE_REQUEST_H_
#define GRADSYNC_COMM_QUEUE_REQUEST_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "comm/process_group.h"
#include "comm/rendezvous/world.h"

// What the backends have in common: a collective as the caller asked for it, checked.
namespace gradsync::comm {

struct Request {
  Collective collective = Collective::kBarrier;
  ReduceOp op = ReduceOp::kSum;  // of kAllReduce and kReduceScatter
  int root = -1;                 // of kBroadcast
  int64_t sequence = 0;          // counts the collectives of this rank from 0
  int64_t chunk = 0;             // which part, of one that is done in several
  // In place: the same tensor twice. A barrier has none.
  model::Tensor input{};
  model::Tensor output{};

  // The whole vector: the larger of the two tensors.
  int64_t bytes() const;
  model::DType dtype() const { return output.defined() ? output.dtype() : model::DType::kU8; }
};

// What every backend asks of its options. Throws InvalidInput, naming the backend.
void CheckOptions(std::string_view backend, const World& world, std::chrono::milliseconds timeout);

// What a group's requests are checked against.
struct RequestLimits {
  int size = 1;                // ranks
  std::string device = "cpu";  // the name of the device that tensors have to be on
};

// These throw InvalidInput, naming the operation, for a tensor that is undefined or on another device, a mean
// of integers, a root that is not a rank, and for shapes or dtypes that do not go together.
Request AllReduceRequest(const RequestLimits& limits, model::Tensor tensor, ReduceOp op);
Request BroadcastRequest(const RequestLimits& limits, model::Tensor tensor, int root);
Request ReduceScatterRequest(const RequestLimits& limits, model::Tensor input, model::Tensor output,
                             ReduceOp op);
Request AllGatherRequest(const RequestLimits& limits, model::Tensor input, model::Tensor output);

// A group whose backend takes every collective in the same way: as a request that has been checked.
class RequestGroup : public ProcessGroup {
 public:
  int size() const final { return limits_.size; }
  Work AllReduce(model::Tensor tensor, ReduceOp op) final {
    return Issue(AllReduceRequest(limits_, std::move(tensor), op));
  }
  Work Broadcast(model::Tensor tensor, int root) final {
    return Issue(BroadcastRequest(limits_, std::move(tensor), root));
  }
  Work ReduceScatter(model::Tensor input, model::Tensor output, ReduceOp op) final {
    return Issue(ReduceScatterRequest(limits_, std::move(input), std::move(output), op));
  }
  Work AllGather(model::Tensor input, model::Tensor output) final {
    return Issue(AllGatherRequest(limits_, std::move(input), std::move(output)));
  }

 protected:
  explicit RequestGroup(RequestLimits limits) : limits_(std::move(limits)) {}

  // Starts it, or puts it into the queue.
  virtual Work Issue(Request request) = 0;

 private:
  const RequestLimits limits_;
};

// What has to be equal on all ranks.
struct Signature {
  int64_t sequence = 0;
  int64_t bytes = 0;
  Collective collective = Collective::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  model::DType dtype = model::DType::kU8;
  int32_t root = -1;

  // As it travels between ranks: as numbers, so that no padding does.
  using Numbers = std::array<int64_t, 6>;

  explicit Signature(const Request& request);
  explicit Signature(const Numbers& numbers);
  Numbers ToNumbers() const;
  bool operator==(const Signature&) const = default;
};

// "all_reduce of 4 bytes i32 (sum)".
std::string ToString(const Signature& signature);
// "rank 1 issues broadcast of 8 bytes f32 (root 0) where rank 0 issues all_reduce of 4 bytes i32 (sum) (#3)".
std::string Mismatch(int rank, const Signature& signature, int other_rank, const Signature& other);

// The text of a CollectiveError: "rank 0: all_reduce #17 of 26214400 bytes (gloo) failed after 60.0 s:
// CAUSE".
std::string Failure(int rank, const Signature& signature, std::string_view backend, int64_t elapsed_ns,
                    std::string_view cause);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_QUEUE_REQUEST_H_
