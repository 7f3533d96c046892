#include "comm/queue/first_cause.h"

#include <chrono>
#include <set>
#include <utility>

#include "comm/rendezvous/store.h"
#include "model/error.h"

namespace gradsync::comm {
namespace {

using Clock = std::chrono::steady_clock;

// How long after its own note a rank waits for those of others.
constexpr std::chrono::milliseconds kWaitFor{1000};
// A store that takes longer belongs to a rank 0 that does nothing any more.
constexpr std::chrono::seconds kStoreAnswersWithin{5};

std::string Key(int rank) { return Join("failure.", rank); }

}  // namespace

void FirstCause::Write(const std::exception& failure) {
  const std::lock_guard lock(mutex_);
  if (own_.has_value()) return;
  const auto* const of_peer = dynamic_cast<const PeerError*>(&failure);
  own_ = Note{of_peer == nullptr ? kNobody : of_peer->suspect(), failure.what()};
  first_ = own_->cause;
  has_seen_end_ = dynamic_cast<const PeerClosed*>(of_peer) != nullptr;
  if (job_ == nullptr) return;
  const Deadline deadline = Clock::now() + kStoreAnswersWithin;
  try {
    job_->store().Set(Key(rank_), Join(own_->suspect, " ", own_->cause), deadline);
  } catch (const JobFailed& failure_before) {
    first_ = failure_before.what();
  } catch (const std::runtime_error&) {
    if (Clock::now() < deadline) return BlameRank0();
    if (own_->suspect != kNobody) first_ = "rank 0 made no progress: its store does not answer";
  }
}

// Its store is gone. Had rank 0 failed because of others, it would have stayed to read what they write.
void FirstCause::BlameRank0() {
  if (has_seen_end_ && rank_ != 0 && first_ == own_->cause) first_ = "rank 0 closed the connection";
}

std::string FirstCause::Read() {
  const std::lock_guard lock(mutex_);
  const bool is_known = job_ == nullptr || is_read_ || first_ != own_->cause;
  is_read_ = true;
  try {
    if (!is_known) Follow(Clock::now() + kWaitFor + (has_seen_end_ ? patience_.zero() : patience_));
  } catch (const std::runtime_error&) {
    BlameRank0();
  }
  return first_;
}

void FirstCause::Follow(Deadline deadline) {
  Note note = *own_;
  std::set<int> seen = {rank_};
  while (note.suspect != kNobody) {
    const int writer = note.suspect;
    if (!seen.insert(writer).second) {
      first_ = own_->cause;  // those who blame each other have both seen only the end
      return;
    }
    const auto text = job_->store().Get(Key(writer), deadline);
    if (!text.has_value()) return;
    note = {std::stoi(*text), text->substr(text->find(' ') + 1)};
    first_ = note.suspect == kNobody ? Join("rank ", writer, " failed: ", note.cause) : note.cause;
  }
}

}  // namespace gradsync::comm
