#include "comm/rendezvous/job.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "comm/process_group.h"
#include "model/error.h"

namespace gradsync::comm {
namespace {

using Clock = std::chrono::steady_clock;

// The keys of a job. First, where nobody knows yet which run it is:
constexpr char kHello[] = "hello.";  // and RANK: the nonce of each rank but 0
// Rank 0's answer: "run RUN_ID", a line "rank RANK NONCE" for each hello, perhaps "verdict TEXT".
constexpr char kRun[] = "run";
// Then after RUN_ID and a dot, where those of its groups are too (comm/rendezvous/rendezvous.h):
constexpr char kTerms[] = "terms";       // of rank 0
constexpr char kJoined[] = "joined.";    // and RANK: the host of a rank that knows the run
constexpr char kRefused[] = "refused.";  // and RANK: how the terms of a rank differ from rank 0's
constexpr char kReady[] = "ready";       // by rank 0, once all have joined: all hosts, a line each
constexpr char kSeen[] = "seen.";        // and RANK: of a rank that has read so
// Between the parts of terms.
constexpr char kBetweenNameAndValue = '\x1f';
constexpr char kBetweenTerms = '\x1e';

// How long a place may be held by a process that is about to end.
constexpr std::chrono::seconds kClaimWithin{1};
// How long rank 0 stays for a rank that has arrived, to read that all have.
constexpr std::chrono::seconds kReadWithin{2};

std::string NewNonce() {
  std::random_device random;
  char text[33];
  std::snprintf(text, sizeof(text), "%08x%08x%08x%08x", random(), random(), random(), random());
  return text;
}

// The rest of the first line that starts with `word`.
std::string Line(const std::string& text, const std::string& word) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(word + " ")) return line.substr(word.size() + 1);
  }
  return "";
}

std::string Pack(const Terms& terms) {
  std::string text;
  for (const auto& [name, value] : terms) text += name + kBetweenNameAndValue + value + kBetweenTerms;
  return text;
}

Terms Unpack(const std::string& text) {
  Terms terms;
  std::istringstream stream(text);
  for (std::string term; std::getline(stream, term, kBetweenTerms);) {
    const size_t end = term.find(kBetweenNameAndValue);
    terms.emplace_back(term.substr(0, end), end == std::string::npos ? "" : term.substr(end + 1));
  }
  return terms;
}

// A value within a line.
std::string InLine(std::string value) {
  std::ranges::replace(value, '\n', ' ');
  return value.empty() ? "nothing" : value;
}

// The first difference between a rank's terms and rank 0's, in words; empty if there is none.
std::string Difference(const Terms& of_rank0, int rank, const Terms& own) {
  for (size_t i = 0; i < std::max(of_rank0.size(), own.size()); ++i) {
    if (i >= of_rank0.size() || i >= own.size() || of_rank0[i].first != own[i].first) {
      const bool more = i < own.size();
      return Join(more ? own[i].first : of_rank0[i].first, ": only rank ", more ? rank : 0, " has it");
    }
    const auto& [name, value] = own[i];
    const std::string& value0 = of_rank0[i].second;
    if (value != value0) {
      return Join(name, ": rank 0 has ", InLine(value0), ", rank ", rank, " has ", InLine(value));
    }
  }
  return "";
}

// Equal for equal bytes of the program.
std::string ProgramFingerprint() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::vector<char> block(size_t{1} << 20);
  uint64_t hash = 0xcbf29ce484222325;
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    std::fill(block.begin() + file.gcount(), block.end(), '\0');
    for (size_t i = 0; i < block.size(); i += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, block.data() + i, sizeof(word));
      hash = (hash ^ word) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 32;
    }
  }
  char text[20];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace

bool StorePoll::Again() {
  if (Clock::now() >= deadline_) return false;
  std::this_thread::sleep_for(pause_);
  pause_ = std::min(pause_ * 2, std::chrono::microseconds(20'000));
  return true;
}

std::string MissingRanks(const World& world, std::chrono::milliseconds timeout,
                         const std::function<bool(int rank)>& has_arrived) {
  std::string missing;
  std::string arrived;
  for (int rank = 0; rank < world.size; ++rank) {
    std::string& list = has_arrived(rank) ? arrived : missing;
    list += Join(list.empty() ? "" : ", ", world.NameOf(rank));
  }
  const bool several = missing.find(',') != std::string::npos;
  return Join(several ? "ranks " : "rank ", missing, " did not arrive at ", world.rendezvous, " within ",
              Seconds(timeout), arrived.empty() ? "" : "; arrived: ", arrived);
}

Job::Job(const World& world, const Terms& terms, std::chrono::milliseconds timeout)
    : world_(world),
      timeout_(timeout),
      deadline_(Clock::now() + timeout),
      nonce_(NewNonce()),
      host_(world.host.empty() ? HostIdentity() : world.host) {
  try {
    store_ = OpenStore({.url = world.rendezvous,
                        .serve = world.rank == 0,
                        .size = world.size,
                        .job = {.name = world.job_name, .secret = world.job_secret}},
                       deadline_);
    // A second more, to learn why rank 0 gave up.
    store_->SetDeadline(deadline_ + std::chrono::seconds(1));
    Claim();
    Terms all_terms = {{"world size", std::to_string(world.size)}};
    all_terms.insert(all_terms.end(), terms.begin(), terms.end());
    world.rank == 0 ? Serve(all_terms) : Enter(all_terms);
  } catch (const CollectiveError&) {
    throw;
  } catch (const std::runtime_error& error) {
    Throw(gradsync::Join("no rendezvous at ", world.rendezvous, ": ", error.what()));
  }
}

Job::~Job() {
  if (world_.rank != 0) return;
  try {
    // Where rank 0 fails at once, the others have still to read that all are there: what is wrong here, they
    // find for themselves, and do not take it for rank 0's leaving.
    StorePoll poll(Clock::now() + kReadWithin);
    while (static_cast<int>(hosts_.size()) == world_.size &&
           static_cast<int>(store_->Keys(Key(kSeen)).size()) < world_.size - 1 && poll.Again()) {
    }
    for (const auto& [key, hello] : hellos_) {
      if (store_->Get(key) == hello) store_->Remove(key);
    }
    store_->Remove(kRun);
    // What a group left is for its Rendezvous to remove: others may still be reading.
    RemoveOwnKeys();
  } catch (const std::runtime_error&) {
    // The place is gone, and all that was there.
  }
}

std::string Job::Key(std::string_view name) const { return gradsync::Join(run_id_, ".", name); }

std::string Job::Key(std::string_view name, int rank) const { return gradsync::Join(Key(name), rank); }

void Job::RemoveOwnKeys() {
  for (const char* const name : {kTerms, kJoined, kRefused, kReady, kSeen}) {
    for (const std::string& key : store_->Keys(Key(name))) store_->Remove(key);
  }
}

void Job::Claim() {
  const std::string name = gradsync::Join("rank.", world_.rank);
  StorePoll poll(std::min(deadline_, Clock::now() + kClaimWithin));
  do {
    if (store_->Claim(name)) return;
  } while (poll.Again());
  Throw(
      gradsync::Join("another process is rank ", world_.rank, " at ", world_.rendezvous,
                     ": each job needs a place of its own, or a GRADSYNC_JOB of its own in the environment"));
}

void Job::Serve(const Terms& terms) {
  run_id_ = nonce_;
  store_->Set(Key(kTerms), Pack(terms));
  hosts_ = {host_};  // of the ranks that have joined, as far as all before them have
  store_->Set(Key(kJoined, 0), host_);
  StorePoll poll(deadline_);
  do {
    Answer("");
    for (const std::string& key : store_->Keys(Key(kRefused))) {
      GiveUp(store_->Get(key).value_or("ranks differ"));
    }
    while (static_cast<int>(hosts_.size()) < world_.size) {
      const auto host = store_->Get(Key(kJoined, static_cast<int>(hosts_.size())));
      if (!host.has_value()) break;
      hosts_.push_back(*host);
    }
    if (static_cast<int>(hosts_.size()) == world_.size) {
      std::string lines;
      for (const std::string& host : hosts_) lines += host + '\n';
      return store_->Set(Key(kReady), lines);
    }
  } while (poll.Again());
  GiveUp(Missing());
}

void Job::GiveUp(const std::string& verdict) {
  // A rank that is only just starting should hear it too.
  StorePoll poll(std::min(deadline_, Clock::now() + std::chrono::seconds(2)));
  do {
    Answer(verdict);
  } while (static_cast<int>(hellos_.size()) < world_.size - 1 && poll.Again());
  RemoveOwnKeys();  // the answer stays
  Throw(verdict);
}

void Job::Answer(const std::string& verdict) {
  std::map<std::string, std::string> hellos;
  for (const std::string& key : store_->Keys(kHello)) hellos[key] = store_->Get(key).value_or("");
  if (hellos == hellos_ && verdict == verdict_) return;
  verdict_ = verdict;
  hellos_ = hellos;
  std::string answer = gradsync::Join("run ", run_id_, "\n");
  for (const auto& [key, nonce] : hellos_) {
    answer += gradsync::Join("rank ", key.substr(sizeof(kHello) - 1), " ", nonce, "\n");
  }
  if (!verdict.empty()) answer += gradsync::Join("verdict ", verdict, "\n");
  store_->Set(kRun, answer);
}

std::string Job::AnswerToMe() {
  const std::string answer = store_->Get(kRun).value_or("");
  const std::string line = gradsync::Join("rank ", world_.rank, " ", nonce_, "\n");
  return answer.find(line) == std::string::npos ? "" : answer;
}

void Job::Join(const std::string& answer, const Terms& terms) {
  const std::string run_id = Line(answer, "run");
  const auto of_rank0 = store_->Get(gradsync::Join(run_id, ".", kTerms));
  if (!of_rank0.has_value()) return;  // rank 0 has given up, and the next answer says why
  run_id_ = run_id;
  const std::string difference = Difference(Unpack(*of_rank0), world_.rank, terms);
  if (difference.empty()) return store_->Set(Key(kJoined, world_.rank), host_);
  store_->Set(Key(kRefused, world_.rank), difference);
  Throw(difference);
}

void Job::Enter(const Terms& terms) {
  const std::string key = gradsync::Join(kHello, world_.rank);
  store_->Set(key, nonce_);
  StorePoll poll(deadline_ + std::chrono::milliseconds(500));  // rank 0 tells better what is wrong
  do {
    const std::string answer = AnswerToMe();
    if (answer.empty()) {
      if (!run_id_.empty()) Throw(gradsync::Join("rank 0 has left ", world_.rendezvous));
      // Rank 0 may be cleaning up after an earlier run.
      if (!store_->Get(key).has_value()) store_->Set(key, nonce_);
      continue;
    }
    const std::string verdict = Line(answer, "verdict");
    if (!verdict.empty()) Throw(verdict);
    if (run_id_.empty()) Join(answer, terms);
    if (run_id_.empty()) continue;
    if (const auto ready = store_->Get(Key(kReady)); ready.has_value()) {
      std::istringstream lines(*ready);
      for (std::string host; std::getline(lines, host);) hosts_.push_back(host);
      store_->Set(Key(kSeen, world_.rank), "1");
      return;
    }
  } while (poll.Again());
  Throw(Missing());
}

std::string Job::Missing() {
  // Only rank 0 knows who else has come.
  if (run_id_.empty()) {
    return gradsync::Join("rank 0 did not arrive at ", world_.rendezvous, " within ", Seconds(timeout_));
  }
  return MissingRanks(world_, timeout_,
                      [this](int rank) { return store_->Get(Key(kJoined, rank)).has_value(); });
}

void Job::Throw(std::string_view cause) const {
  throw CollectiveError(gradsync::Join("rank ", world_.rank, ": ", cause));
}

World JoinJob(const World& world, const Terms& terms, std::chrono::milliseconds timeout) {
  if (world.size == 1) return world;
  Terms all_terms = {{"program", ProgramFingerprint()}};
  all_terms.insert(all_terms.end(), terms.begin(), terms.end());
  World joined = world;
  joined.job = std::make_shared<Job>(world, all_terms, timeout);
  const std::vector<std::string>& hosts = joined.job->hosts();
  const auto own = hosts.begin() + world.rank;
  joined.local_rank = static_cast<int>(std::count(hosts.begin(), own, *own));
  joined.local_size = static_cast<int>(std::ranges::count(hosts, *own));
  return joined;
}

}  // namespace gradsync::comm
