#ifndef GRADSYNC_COMM_QUEUE_CHECKED_PROCESS_GROUP_H_
#define GRADSYNC_COMM_QUEUE_CHECKED_PROCESS_GROUP_H_

#include <memory>
#include <string>

#include "comm/process_group.h"
#include "model/device.h"

namespace gradsync::comm {

// Compares each collective with what the other ranks issue before it passes it on to another group. Ranks
// that differ all get the same CollectiveError, which names the first difference, for this collective and
// those after it. Issue waits for all ranks.
class CheckedProcessGroup : public GroupDecorator {
 public:
  // `device`: that of the group's tensors.
  CheckedProcessGroup(std::unique_ptr<ProcessGroup> inner, model::DevicePtr device)
      : GroupDecorator(std::move(inner)), device_(std::move(device)) {}

  Work Issue(Request request) override;

 private:
  // What differs; empty if nothing does.
  std::string Compare(const Request& request);

  const model::DevicePtr device_;
  int64_t next_sequence_ = 0;
  std::string difference_;
};

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_QUEUE_CHECKED_PROCESS_GROUP_H_
