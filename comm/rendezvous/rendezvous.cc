#include "comm/rendezvous/rendezvous.h"

#include "absl/strings/str_cat.h"
#include "comm/process_group.h"

namespace gradsync::comm {

Rendezvous::Rendezvous(const World& world, std::chrono::milliseconds timeout)
    : world_(world),
      timeout_(timeout),
      deadline_(std::chrono::steady_clock::now() + timeout),
      job_(world.job != nullptr ? world.job : std::make_shared<Job>(world, Terms{}, timeout)),
      prefix_(job_->NextGroup(world.members)) {}

std::vector<std::string> Rendezvous::hosts() const {
  World world = world_;
  world.job = job_;
  return HostsOf(world);
}

std::vector<std::string> Rendezvous::Exchange(const std::vector<std::string>& own) {
  return WithRendezvousErrors(world_, [&] {
    Store& store = job_->store();
    const auto values =
        store.Meet(absl::StrCat(prefix_, ".", num_exchanges_++), world_.rank, world_.size, own, deadline_);
    std::vector<std::string> all;
    for (const auto& value : values) {
      if (value.has_value()) all.push_back(*value);
    }
    if (all.size() == values.size()) return all;
    const std::string cause = DescribeMissingRanks(
        world_, timeout_, [&](int rank) { return values[static_cast<size_t>(rank)].has_value(); });
    store.Fail(cause);  // so that all ranks report one cause
    throw JobFailed(cause);
  });
}

}  // namespace gradsync::comm
