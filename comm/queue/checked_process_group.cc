#include "comm/queue/checked_process_group.h"

#include <span>
#include <utility>
#include <vector>

#include "comm/queue/request.h"

namespace gradsync::comm {
namespace {

using model::Tensor;

class Refused : public Work::State {
 public:
  explicit Refused(std::string error) : error_(std::move(error)) {}
  void Wait() override { throw CollectiveError(error_); }
  Interval interval() override { throw CollectiveError(error_); }
  bool Done() override { return true; }

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
  const Signature own(request);
  std::vector<Signature> all(static_cast<size_t>(size()));
  // It has the collective's number, and so no other collective's messages.
  Request gather{.collective = Collective::kAllGather, .sequence = request.sequence, .is_check = true};
  gather.input =
      Tensor::FromBytes(device_, {sizeof(own)}, model::DType::kU8, std::as_bytes(std::span(&own, 1)));
  gather.output = Tensor::Empty(device_, {size(), sizeof(own)}, model::DType::kU8);
  try {
    GroupDecorator::Issue(gather).Wait();
  } catch (const CollectiveError&) {
    return "";  // the group has failed, and says why
  }
  gather.output.CopyToHost(all.data());
  for (int rank = 1; rank < size(); ++rank) {
    const Signature& theirs = all[static_cast<size_t>(rank)];
    if (theirs != all[0]) return Mismatch(rank, theirs, 0, all[0]);
  }
  return "";
}

}  // namespace gradsync::comm
