#include "comm/queue/first_cause.h"

#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "comm/rendezvous/store.h"
#include "model/base/error.h"

namespace gradsync::comm {
namespace {

using Clock = std::chrono::steady_clock;

// How long a rank waits for the notes of other ranks after its own note.
constexpr std::chrono::milliseconds kWaitFor{1000};
// If the store takes longer, rank 0 has ended.
constexpr std::chrono::seconds kStoreAnswersWithin{5};

std::string Key(int rank) { return Join("failure.", rank); }

}  // namespace

FirstCause::FirstCause(const World& world, std::chrono::milliseconds patience)
    : job_(world.job), rank_(world.NameOf(world.rank)), patience_(patience) {
  for (int i = 0; i < world.size; ++i) {
    if (i != world.rank) others_.push_back(world.NameOf(i));
  }
}

void FirstCause::Write(const std::exception& failure) {
  const std::lock_guard lock(mutex_);
  if (own_.has_value()) return;
  const auto* const of_peer = dynamic_cast<const PeerError*>(&failure);
  own_ = Note{of_peer == nullptr ? kNobody : of_peer->suspect(), failure.what()};
  first_ = own_->cause;
  has_seen_end_ = dynamic_cast<const PeerClosed*>(of_peer) != nullptr;
  is_known_ = job_ == nullptr;
  if (is_known_) return;
  // A rank writes its note before it closes a connection: the note is there now, but the store may be gone at
  // Read.
  try {
    if (has_seen_end_) Follow(Clock::now());
  } catch (const std::runtime_error&) {
    // Set reports the error.
  }
  const Deadline deadline = Clock::now() + kStoreAnswersWithin;
  try {
    job_->store().Set(Key(rank_), Join(own_->suspect, " ", own_->cause), deadline);
  } catch (const JobFailed& failure_before) {
    first_ = failure_before.what();
    is_known_ = true;
  } catch (const std::runtime_error&) {
    is_known_ = true;
    // If rank 0 had left because of another rank, it would have sent the cause.
    const bool is_gone = Clock::now() < deadline;
    if (is_gone && has_seen_end_ && rank_ != 0 && first_ == own_->cause)
      first_ = "rank 0 closed the connection";
    if (!is_gone && own_->suspect != kNobody) first_ = "rank 0 made no progress: its store does not answer";
  }
}

std::string FirstCause::Read() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(is_known_, true)) return first_;
  try {
    const bool has_end = Follow(Clock::now() + kWaitFor + (has_seen_end_ ? patience_.zero() : patience_));
    // Rank 0 may be about to leave, and other ranks may not have noticed the failure yet.
    if (rank_ == 0 && has_end)
      job_->store().Fail(own_->suspect == kNobody ? Join("rank 0 failed: ", own_->cause) : first_);
  } catch (const JobFailed& failure) {
    first_ = failure.what();
  } catch (const std::runtime_error&) {
    // Rank 0 has left after this rank's note, so the failure in the note came first.
  }
  return first_;
}

bool FirstCause::Follow(Deadline deadline) {
  if (own_->suspect == kSomebody) FindSilent(deadline);
  Note note = *own_;
  std::set<int> seen = {rank_};
  while (note.suspect >= 0) {
    const int writer = note.suspect;
    if (!seen.insert(writer).second) {
      first_ = own_->cause;  // two ranks that blame each other have both seen only the end of a connection
      return false;
    }
    const std::optional<Note> theirs = NoteOf(writer, deadline);
    if (!theirs.has_value()) return true;
    note = *theirs;
    first_ = note.suspect == kNobody ? Join("rank ", writer, " failed: ", note.cause) : note.cause;
  }
  return true;
}

void FirstCause::FindSilent(Deadline deadline) {
  std::optional<int> silent;
  for (const int other : others_) {
    const std::optional<Note> note = NoteOf(other, deadline);
    if (note.has_value() && note->suspect == kNobody) {
      first_ = Join("rank ", other, " failed: ", note->cause);
      return;
    }
    if (!note.has_value() && !silent.has_value()) silent = other;
  }
  if (!silent.has_value() || !own_->cause.starts_with(kAnotherRank)) return;
  first_ = Join("rank ", *silent, own_->cause.substr(std::string_view(kAnotherRank).size()));
}

std::optional<FirstCause::Note> FirstCause::NoteOf(int rank, Deadline deadline) const {
  const auto text = job_->store().Get(Key(rank), deadline);
  if (!text.has_value()) return std::nullopt;
  Note note{};
  const size_t space = text->find(' ');
  if (!absl::SimpleAtoi(text->substr(0, space), &note.suspect)) return std::nullopt;
  note.cause = text->substr(space + 1);
  return note;
}

}  // namespace gradsync::comm
