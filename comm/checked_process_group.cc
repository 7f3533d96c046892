#include "comm/checked_process_group.h"

#include <utility>

#include "comm/queue/request.h"

namespace gradsync::comm {
namespace {

using model::Tensor;

class Refused : public Work::State {
 public:
  explicit Refused(std::string error) : error_(std::move(error)) {}
  void Wait() override { throw CollectiveError(error_); }
  Interval interval() override { throw CollectiveError(error_); }

 private:
  const std::string error_;
};

}  // namespace

Work CheckedProcessGroup::Issue(Request request) {
  request.sequence = next_sequence_++;
  if (difference_.empty()) difference_ = Compare(request);
  if (difference_.empty()) return GroupDecorator::Issue(std::move(request));
  return Work(std::make_shared<Refused>(
      Failure(rank(), Signature(request), backend(), /*elapsed_ns=*/0, difference_)));
}

std::string CheckedProcessGroup::Compare(const Request& request) {
  constexpr int64_t kWidth = std::tuple_size_v<Signature::Numbers>;
  // It has the collective's number, and so no other collective's messages.
  Request gather{.collective = Collective::kAllGather, .sequence = request.sequence, .chunk = -1};
  gather.input = Tensor::From<int64_t>(device_, {kWidth}, Signature(request).ToNumbers());
  gather.output = Tensor::Empty(device_, {size(), kWidth}, model::DType::kI64);
  try {
    GroupDecorator::Issue(gather).Wait();
  } catch (const CollectiveError&) {
    return "";  // the group has failed, and says why
  }
  const std::vector<int64_t> all = gather.output.ToVector<int64_t>();
  const auto of_rank = [&](int64_t rank) {
    Signature::Numbers numbers;
    std::copy_n(all.begin() + rank * kWidth, kWidth, numbers.begin());
    return Signature(numbers);
  };
  for (int rank = 1; rank < size(); ++rank) {
    if (of_rank(rank) != of_rank(0)) return Mismatch(rank, of_rank(rank), 0, of_rank(0));
  }
  return "";
}

}  // namespace gradsync::comm
