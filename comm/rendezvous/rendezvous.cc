#include "comm/rendezvous/rendezvous.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/process_group.h"
#include "model/error.h"

namespace gradsync::comm {
namespace {

using Clock = std::chrono::steady_clock;

// How much later than the deadline rank 0 may confirm a note.
constexpr std::chrono::seconds kConfirmWithin{1};

}  // namespace

Rendezvous::Rendezvous(const World& world, std::chrono::milliseconds timeout)
    : world_(world),
      timeout_(timeout),
      deadline_(Clock::now() + timeout),
      job_(world.job != nullptr ? world.job : std::make_shared<Job>(world, Terms{}, timeout)),
      prefix_(job_->NextGroup(world.members)) {
  AtRendezvous(world_, [&] { WaitForAll(); });
}

std::vector<std::string> Rendezvous::hosts() const {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < world_.size; ++rank) {
    hosts.push_back(job_->hosts()[static_cast<size_t>(world_.NameOf(rank))]);
  }
  return hosts;
}

void Rendezvous::WaitForAll() {
  Store& store = job_->store();
  const auto key = [&](int rank) { return absl::StrCat(prefix_, ".arrived.", rank); };
  store.Set(key(world_.rank), "", deadline_ + kConfirmWithin);
  for (int rank = 0; rank < world_.size; ++rank) {
    if (store.Get(key(rank), deadline_).has_value()) continue;
    Fail(MissingRanks(world_, timeout_, [&](int other) {
      return other != rank && store.Get(key(other), Clock::now()).has_value();
    }));
  }
}

void Rendezvous::Set(const std::string& key, std::string_view value) {
  AtRendezvous(world_,
               [&] { job_->store().Set(Join(prefix_, ".note.", key), value, deadline_ + kConfirmWithin); });
}

std::string Rendezvous::Get(const std::string& key, int from) {
  return AtRendezvous(world_, [&] {
    if (auto value = job_->store().Get(absl::StrCat(prefix_, ".note.", key), deadline_))
      return *std::move(value);
    Fail(Join("rendezvous at ", world_.rendezvous, ": rank ", world_.NameOf(from), " left no note ", key,
              " within ", Seconds(timeout_)));
  });
}

void Rendezvous::Fail(const std::string& cause) {
  job_->store().Fail(cause);
  throw JobFailed(cause);
}

}  // namespace gradsync::comm
