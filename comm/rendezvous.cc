#include "comm/rendezvous.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <sstream>
#include <thread>

#include "comm/process_group.h"
#include "model/error.h"

namespace gradsync::comm {
namespace {

using Clock = std::chrono::steady_clock;

// The files, or keys, of a rendezvous:
//   hello.RANK       "NONCE SIZE", by each rank but 0
//   run              by rank 0: "run RUN_ID SIZE", a line "rank RANK NONCE" for each hello, perhaps "verdict
//   TEXT" RUN_ID.joined.R  by each rank, once it knows the run RUN_ID.refused.R "SIZE", by a rank that was
//   started for a world of another size RUN_ID.ready     by rank 0, once all have joined RUN_ID.note.KEY
//   whatever the ranks have to tell each other
constexpr char kHello[] = "hello.";
constexpr char kRun[] = "run";

std::string NewNonce() {
  std::random_device random;
  char text[17];
  std::snprintf(text, sizeof(text), "%08x%08x", random(), random());
  return text;
}

// Sleeps between looks at the store: short at first, because ranks usually start together.
class Poll {
 public:
  explicit Poll(Deadline deadline) : deadline_(deadline) {}
  // False once the deadline has passed.
  bool Again() {
    if (Clock::now() >= deadline_) return false;
    std::this_thread::sleep_for(pause_);
    pause_ = std::min(pause_ * 2, std::chrono::microseconds(20'000));
    return true;
  }

 private:
  const Deadline deadline_;
  std::chrono::microseconds pause_{250};
};

std::string SizeMismatch(int rank, const std::string& size, const std::string& size_of_rank0) {
  return Join("rank ", rank, " was started for a world of ", size, " ranks, rank 0 for one of ",
              size_of_rank0);
}

// The rest of the first line that starts with `word`.
std::string Line(const std::string& text, const std::string& word) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(word + " ")) return line.substr(word.size() + 1);
  }
  return "";
}

}  // namespace

Rendezvous::Rendezvous(const World& world, std::chrono::milliseconds timeout)
    : world_(world), timeout_(timeout), deadline_(Clock::now() + timeout), nonce_(NewNonce()) {
  try {
    store_ = OpenStore(world.rendezvous, world.rank == 0, deadline_);
    world.rank == 0 ? Serve() : Enter();
  } catch (const CollectiveError&) {
    throw;
  } catch (const std::runtime_error& error) {
    Throw(Join("no rendezvous at ", world.rendezvous, ": ", error.what()));
  }
}

std::string Rendezvous::Key(std::string_view name, int rank) const {
  return Join(run_id_, ".", name, ".", rank);
}

bool Rendezvous::HasArrived(int rank) { return store_->Get(Key("joined", rank)).has_value(); }

void Rendezvous::Serve() {
  run_id_ = nonce_;
  store_->Set(Key("joined", 0), "");
  int num_joined = 1;  // ranks below it have joined
  Poll poll(deadline_);
  do {
    Answer("");
    for (const std::string& key : store_->Keys(run_id_ + ".refused.")) {
      const int rank = std::stoi(key.substr(key.rfind('.') + 1));
      GiveUp(SizeMismatch(rank, store_->Get(key).value_or("?"), std::to_string(world_.size)));
    }
    while (num_joined < world_.size && HasArrived(num_joined)) ++num_joined;
    if (num_joined == world_.size) return store_->Set(run_id_ + ".ready", "");
  } while (poll.Again());
  GiveUp(Missing());
}

void Rendezvous::GiveUp(const std::string& verdict) {
  // A rank that is only just starting should hear it too.
  Poll poll(std::min(deadline_, Clock::now() + std::chrono::seconds(2)));
  do {
    Answer(verdict);
  } while (static_cast<int>(hellos_.size()) < world_.size - 1 && poll.Again());
  Throw(verdict);
}

void Rendezvous::Answer(const std::string& verdict) {
  std::map<std::string, std::string> hellos;
  for (const std::string& key : store_->Keys(kHello)) hellos[key] = store_->Get(key).value_or("");
  if (hellos == hellos_ && verdict == verdict_) return;
  verdict_ = verdict;
  hellos_ = hellos;
  std::string answer = Join("run ", run_id_, " ", world_.size, "\n");
  for (const auto& [key, hello] : hellos_) {
    answer += Join("rank ", key.substr(sizeof(kHello) - 1), " ", hello.substr(0, hello.find(' ')), "\n");
  }
  if (!verdict.empty()) answer += Join("verdict ", verdict, "\n");
  store_->Set(kRun, answer);
}

std::string Rendezvous::AnswerToMe() {
  const std::string answer = store_->Get(kRun).value_or("");
  return answer.find(Join("rank ", world_.rank, " ", nonce_, "\n")) == std::string::npos ? "" : answer;
}

void Rendezvous::Enter() {
  const std::string key = Join(kHello, world_.rank);
  const std::string hello = Join(nonce_, " ", world_.size);
  store_->Set(key, hello);
  Poll poll(deadline_ + std::chrono::milliseconds(500));  // rank 0 tells better what is wrong
  do {
    // Rank 0 may be cleaning up after an earlier run, in which it knew another hello of this rank.
    const std::string known = store_->Get(key).value_or("");
    if (known.empty()) store_->Set(key, hello);
    if (!known.empty() && known != hello) Throw(Join("another process says that it is rank ", world_.rank));

    const std::string answer = AnswerToMe();
    if (answer.empty()) continue;
    std::istringstream run(Line(answer, "run"));
    std::string run_id;
    std::string size;
    run >> run_id >> size;
    if (run_id_.empty()) {
      run_id_ = run_id;
      const bool same_size = size == std::to_string(world_.size);
      store_->Set(Key(same_size ? "joined" : "refused", world_.rank), std::to_string(world_.size));
      if (!same_size) Throw(SizeMismatch(world_.rank, std::to_string(world_.size), size));
    }
    const std::string verdict = Line(answer, "verdict");
    if (!verdict.empty()) Throw(verdict);
    if (store_->Get(run_id_ + ".ready").has_value()) return;
  } while (poll.Again());
  Throw(Missing());
}

std::string Rendezvous::Missing() {
  std::string missing = run_id_.empty() ? "0" : "";
  std::string arrived;
  for (int rank = 0; rank < world_.size && !run_id_.empty(); ++rank) {
    std::string& list = HasArrived(rank) ? arrived : missing;
    list += Join(list.empty() ? "" : ", ", rank);
  }
  const bool several = missing.find(',') != std::string::npos;
  return Join(several ? "ranks " : "rank ", missing, " did not arrive at ", world_.rendezvous, " within ",
              Seconds(timeout_), arrived.empty() ? "" : "; arrived: ", arrived);
}

void Rendezvous::Set(const std::string& key, std::string_view value) {
  try {
    store_->Set(Join(run_id_, ".note.", key), value);
  } catch (const std::runtime_error& error) {
    Throw(Join("rendezvous at ", world_.rendezvous, ": ", error.what()));
  }
}

std::string Rendezvous::Get(const std::string& key) {
  try {
    Poll poll(deadline_);
    do {
      if (auto value = store_->Get(Join(run_id_, ".note.", key)); value.has_value()) return *std::move(value);
    } while (poll.Again());
  } catch (const std::runtime_error& error) {
    Throw(Join("rendezvous at ", world_.rendezvous, ": ", error.what()));
  }
  Throw(Join("rendezvous at ", world_.rendezvous, ": no rank left the note ", key, " within ",
             Seconds(timeout_)));
}

void Rendezvous::Finish() {
  if (world_.rank != 0) return;
  for (const auto& [key, hello] : hellos_) {
    if (store_->Get(key) == hello) store_->Remove(key);
  }
  store_->Remove(kRun);
  for (const std::string& key : store_->Keys(run_id_ + ".")) store_->Remove(key);
}

void Rendezvous::Throw(std::string_view cause) const {
  throw CollectiveError(Join("rank ", world_.rank, ": ", cause));
}

}  // namespace gradsync::comm
