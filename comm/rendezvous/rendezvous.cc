#include "comm/rendezvous/rendezvous.h"

#include <optional>
#include <stdexcept>

#include "comm/process_group.h"
#include "model/error.h"

namespace gradsync::comm {

Rendezvous::Rendezvous(const World& world, std::chrono::milliseconds timeout)
    : world_(world),
      timeout_(timeout),
      deadline_(std::chrono::steady_clock::now() + timeout),
      job_(world.job != nullptr ? world.job : std::make_shared<Job>(world, Terms{}, timeout)),
      session_(job_->NextSession()) {
  try {
    job_->store().SetDeadline(deadline_ + std::chrono::seconds(1));
    WaitForAll();
  } catch (const CollectiveError&) {
    throw;
  } catch (const std::runtime_error& error) {
    Throw(Join("rendezvous at ", world_.rendezvous, ": ", error.what()));
  }
}

std::string Rendezvous::Key(std::string_view name) const {
  return Join(job_->id(), ".", session_, ".", world_.NameOf(0), ".", name);
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
  const std::string prefix = Key("arrived.");
  store.Set(prefix + std::to_string(world_.rank), "");
  StorePoll poll(deadline_);
  do {
    if (store.Keys(prefix).size() == static_cast<size_t>(world_.size)) return;
  } while (poll.Again());
  Throw(MissingRanks(world_, timeout_,
                     [&](int rank) { return store.Get(prefix + std::to_string(rank)).has_value(); }));
}

void Rendezvous::Set(const std::string& key, std::string_view value) {
  try {
    job_->store().Set(Key("note." + key), value);
  } catch (const std::runtime_error& error) {
    Throw(Join("rendezvous at ", world_.rendezvous, ": ", error.what()));
  }
}

std::string Rendezvous::Get(const std::string& key, int from) {
  try {
    StorePoll poll(deadline_);
    do {
      if (auto value = job_->store().Get(Key("note." + key)); value.has_value()) return *std::move(value);
    } while (poll.Again());
  } catch (const std::runtime_error& error) {
    Throw(Join("rendezvous at ", world_.rendezvous, ": ", error.what()));
  }
  Throw(Join("rendezvous at ", world_.rendezvous, ": rank ", world_.NameOf(from), " left no note ", key,
             " within ", Seconds(timeout_)));
}

void Rendezvous::Finish() {
  if (world_.rank != 0) return;
  for (const std::string& key : job_->store().Keys(Key(""))) job_->store().Remove(key);
}

void Rendezvous::Throw(std::string_view cause) const {
  throw CollectiveError(Join("rank ", world_.NameOf(world_.rank), ": ", cause));
}

}  // namespace gradsync::comm
