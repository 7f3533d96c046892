#include "comm/queue/first_cause.h"

#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "model/error.h"

namespace gradsync::comm {
namespace {

using Clock = std::chrono::steady_clock;

// How long after its own note a rank looks for those of others.
constexpr std::chrono::milliseconds kLookFor{1000};
constexpr std::chrono::milliseconds kLookEvery{50};
// A store that takes longer belongs to a rank 0 that does nothing any more.
constexpr std::chrono::seconds kStoreAnswersWithin{5};

}  // namespace

std::string FirstCause::Key(int rank) const { return Join(job_->id(), ".failure.", rank); }

void FirstCause::Write(const std::exception& failure) {
  const std::lock_guard lock(mutex_);
  if (own_.has_value()) return;
  const auto* const of_peer = dynamic_cast<const PeerError*>(&failure);
  own_ = Note{of_peer == nullptr ? kNobody : of_peer->suspect(), failure.what()};
  first_ = own_->cause;
  if (job_ == nullptr) return;
  const Deadline deadline = Clock::now() + kStoreAnswersWithin;
  try {
    job_->store().SetDeadline(deadline);
    job_->store().Set(Key(rank_), Join(own_->suspect, " ", own_->cause));
  } catch (const std::runtime_error&) {
    if (rank_ == 0 || own_->suspect == 0 || own_->suspect == kNobody) return;
    if (Clock::now() >= deadline) {
      first_ = "rank 0 made no progress: its store does not answer";
    } else if (is_kept_by_rank0_ && dynamic_cast<const PeerClosed*>(of_peer) != nullptr) {
      first_ = "rank 0 closed the connection";
    }
  }
}

std::string FirstCause::Read() {
  const std::lock_guard lock(mutex_);
  const bool is_known = job_ == nullptr || is_read_ || first_ != own_->cause;
  for (const auto end = Clock::now() + kLookFor; !is_known && Clock::now() < end;) {
    try {
      Follow();
    } catch (const std::runtime_error&) {
      break;  // rank 0 has left
    }
    std::this_thread::sleep_for(kLookEvery);
  }
  is_read_ = true;
  return first_;
}

void FirstCause::Follow() {
  Note note = *own_;
  std::set<int> seen = {rank_};
  while (note.suspect != kNobody) {
    // Those who blame each other have both seen only the end.
    if (!seen.insert(note.suspect).second) return;
    const int writer = note.suspect;
    const auto text = job_->store().Get(Key(writer));
    if (!text.has_value()) break;
    const size_t space = text->find(' ');
    note = {std::stoi(*text), text->substr(space + 1)};
    if (note.suspect == kNobody) note.cause = Join("rank ", writer, " failed: ", note.cause);
  }
  first_ = note.cause;
}

}  // namespace gradsync::comm
