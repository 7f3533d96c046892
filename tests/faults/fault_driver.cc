// Causes a fault in one rank of a training run, at a random place, and checks the outcome: the run ends with
// status 1 within its deadline, names the rank, and the place if the rank could report it, and blames no
// other rank. Records of finished work are intact, name the links that were used, and can be read by
// tools/summarize. No process or file is left. Prints the number of runs by outcome, and fails if an outcome
// was wrong. A long run:
//   bazel run //tests/faults:fault_test -- --runs=500 --first_seed=1 [--backend=NAME [--ranks_per_host=N]]
//     [--place=PLACE] [--strategy=STRATEGY]
#include <dirent.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/records/record.h"
#include "bench/testing/run_program.h"
#include "comm/processes/temporary_directory.h"
#include "comm/testing/rank_threads.h"
#include "ddp/factory.h"
#include "model/base/error.h"
#include "model/base/flags.h"

namespace gradsync {
namespace {

using bench::ProgramResult;

constexpr char kProgram[] = "tests/faults/faulty_ddp";
constexpr char kSummarize[] = "tools/summarize";
// Each of two cases has an untimed turn, three timed turns, and one turn for the check, or two turns for a
// check by a strategy's equation. Each timed turn, the end of timed turns, and the check cause one write. The
// arguments are below.
constexpr int kWritesPerCase = 5;
int StepsPerCase(const ddp::Traits& traits) {
  const int turns = traits.reference == nullptr ? 5 : 6;
  return turns * static_cast<int>(ddp::PeriodOf(traits, {}));
}
// Returns the traits of "zero1" and of "zero1:within=host".
const ddp::Traits& TraitsOf(const std::string& strategy) {
  return ddp::TraitsOf(strategy.substr(0, strategy.find(':')));
}
int MeetingsPerCase(const ddp::Traits& traits) { return 2 * StepsPerCase(traits); }

struct Accident {
  int seed;
  int world_size;
  std::string strategy;
  int rank;
  std::string place;
  int count;
  std::string kind;

  std::string ToString() const {
    return Join("--first_seed=", seed, " --runs=1: ", kind, " in rank ", rank, " of ", world_size, ", ",
                strategy, ", ", place, " ", count);
  }
  bool meets_over_tcp() const { return seed % 2 == 0; }
  bool in_phase() const {
    return place == "forward" || place == "backward" || place == "synchronisation" || place == "optimizer";
  }
  // Returns the phase that the rank reports in its error; empty if it cannot report.
  std::string said_phase() const {
    if (kind != "throw" && kind != "memory") return "";
    if (in_phase()) return place;
    return place == "operation" ? "backward" : place == "meeting" ? "optimizer" : "";
  }
  // Returns whether all ranks have the records of the first case before the fault.
  bool after_first_case() const {
    const ddp::Traits& traits = TraitsOf(strategy);
    return (in_phase() && count >= StepsPerCase(traits)) || (place == "records" && count >= kWritesPerCase) ||
           (place == "meeting" && count >= MeetingsPerCase(traits)) || place == "end";
  }
};

// Returns a random fault. With `ranks_per_host`, the world has `num_hosts` hosts, and in half of the runs
// strategies that support it shard within hosts. `place` and `strategy` select the place and the strategy.
Accident RandomAccident(int seed, int num_hosts, int ranks_per_host, const std::string& place,
                        const std::string& strategy) {
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  const auto one_of = [&](const std::vector<std::string>& values) {
    return values[static_cast<size_t>(below(static_cast<int>(values.size())))];
  };
  std::vector<std::string> strategies = ddp::StrategyNames();
  std::erase_if(strategies, [&](const std::string& name) {
    return name == ddp::FloorTraits().name ||
           (place == "meeting" && (!ddp::TraitsOf(name).shards_state || ddp::TraitsOf(name).shards_values));
  });
  Accident accident;
  accident.seed = seed;
  accident.world_size = 2 + below(3);
  if (ranks_per_host > 0) accident.world_size = num_hosts * ranks_per_host;
  accident.strategy = one_of(strategies);
  if (!strategy.empty()) accident.strategy = strategy;
  accident.rank = below(accident.world_size);
  accident.place = one_of({"start", "join", "soon", "forward", "backward", "operation", "collective",
                           "synchronisation", "optimizer", "records", "end"});
  if (!place.empty()) accident.place = place;
  // A rank without a handler aborts when it throws, and a fault of place "soon" happens in a thread for which
  // no other thread waits.
  accident.kind = accident.place == "soon" ? one_of({"kill", "stop", "exit", "leave"})
                  // When all work is done, only a rank that does not end is a fault.
                  : accident.place == "end" ? one_of({"stop", "hang", "silent"})
                  : accident.place == "start"
                      ? one_of({"kill", "stop", "exit", "leave", "hang", "silent"})
                      : one_of({"kill", "stop", "exit", "leave", "throw", "memory", "hang", "silent"});
  const ddp::Traits& traits = TraitsOf(accident.strategy);
  const bool many = !traits.has_buckets && traits.gradient_copies == 0;  // one collective for each parameter
  const int steps = 2 * StepsPerCase(traits);
  const std::map<std::string, int> counts = {{"start", 1},
                                             {"join", 1},
                                             {"end", 1},
                                             {"soon", 400'000},
                                             {"operation", 200},
                                             {"collective", many ? 200 : steps},
                                             {"meeting", 2 * MeetingsPerCase(traits)},
                                             {"records", 2 * kWritesPerCase}};
  const auto count = counts.find(accident.place);
  accident.count = below(count == counts.end() ? steps : count->second);
  const bool can_shard = strategy.empty() && traits.FindOption(ddp::kWithin.name) != nullptr;
  if (ranks_per_host > 0 && can_shard && below(2) == 0) accident.strategy += ":within=host";
  return accident;
}

// Returns the number of processes that have `variable` in their environment.
int ProcessesWith(const std::string& variable) {
  int count = 0;
  DIR* const processes = opendir("/proc");
  while (const dirent* const entry = readdir(processes)) {
    const std::string environment = bench::ReadText(Join("/proc/", entry->d_name, "/environ"));
    if (environment.find(variable + std::string(1, '\0')) != std::string::npos) ++count;
  }
  closedir(processes);
  return count;
}

// One run with a fault.
class Run {
 public:
  Run(const Accident& accident, const std::string& backend, int ranks_per_host, int timeout_s)
      : accident_(accident),
        ranks_per_host_(ranks_per_host),
        out_(bench::FreshDirectory()),
        temporary_(bench::FreshDirectory()) {
    mark_ = "GRADSYNC_TEST_RUN=" + temporary_;
    std::vector<std::string> arguments = {"--d_model=16",
                                          "--d_ff=32",
                                          "--num_layers=2",
                                          "--num_heads=2",
                                          "--vocab_size=64",
                                          "--batch_size=2",
                                          "--seq_len=4,8",
                                          "--warmup_steps=1",
                                          "--steps=3",
                                          "--backend=" + backend,
                                          "--variants=" + accident.strategy,
                                          Join("--world_size=", accident.world_size),
                                          Join("--timeout=", timeout_s, "s"),
                                          "--out=" + out_};
    if (TraitsOf(accident.strategy).has_buckets) arguments.push_back("--bucket_bytes=4KiB");
    std::vector<std::pair<std::string, std::string>> environment = {
        {"GRADSYNC_TEST_FAULT",
         Join(accident.rank, " ", accident.place, " ", accident.count, " ", accident.kind)},
        {"GRADSYNC_TEST_RANKS_PER_HOST", Join(ranks_per_host > 0 ? ranks_per_host : accident.world_size)},
        {"GRADSYNC_TEST_RUN", temporary_},
        {"TMPDIR", temporary_}};
    // Otherwise the rendezvous is in the launcher's directory.
    if (accident.meets_over_tcp()) {
      environment.emplace_back("GRADSYNC_TEST_RENDEZVOUS",
                               comm::FreeTcpUrl(ranks_per_host > 0 ? comm::OuterAddress() : "127.0.0.1"));
    }
    bench::RunningProgram program(kProgram, arguments, environment);
    // The additional time is for the launcher, which stops the other ranks, and for a slow machine.
    result_ = program.Wait(std::chrono::seconds(timeout_s + 40));
  }
  ~Run() {
    std::filesystem::remove_all(out_);
    std::filesystem::remove_all(temporary_);
  }

  // Returns "as it should", "spared" (the place was never reached), or what was wrong.
  std::string Outcome() const {
    if (result_.status == -1) return "hung";
    if (result_.status == 0) return Spared() ? "spared" : "status 0";
    if (result_.status != 1) return Join("status ", result_.status);
    if (!Named()) return "cause not named";
    if (!InnocentsSpared()) return "an innocent rank blamed";
    if (!RecordsIntact()) return "records damaged";
    if (!Summarized()) return "not summarised";
    if (LeftBehind()) return "something left behind";
    return "as it should";
  }
  std::string err() const { return result_.err; }

 private:
  bool Said(const std::string& text) const { return result_.err.find(text) != std::string::npos; }

  bool Spared() const { return result_.err.empty() && (accident_.place == "soon" || accident_.count > 0); }

  bool Named() const {
    const std::string rank = Join("rank ", accident_.rank);
    if (accident_.kind == "kill" || accident_.kind == "exit") {
      const std::string last = result_.err.substr(result_.err.rfind('\n', result_.err.size() - 2) + 1);
      return last.starts_with(rank + " (pid ") &&
             last.find(accident_.kind == "kill" ? ") was killed by signal 9 (SIGKILL);"
                                                : ") exited with status 7;") != std::string::npos;
    }
    // The rank must be named by its peers.
    if (accident_.kind != "throw" && accident_.kind != "memory") return Said(rank + " ");
    const std::string what = accident_.kind == "throw" ? "the fault of the test"
                                                       : "out of memory on cpu: asked for 1125899906842624";
    return Said(Join(rank, ": ", what)) &&
           (accident_.said_phase().empty() ||
            Said(Join("; in ", accident_.said_phase(), " of ", TraitsOf(accident_.strategy).name)));
  }

  // Checks that no rank blames another rank than the rank of the fault.
  bool InnocentsSpared() const {
    static const std::regex blame(
        "rank ([0-9]+) (made no progress|closed the connection|did not arrive|left|has left|failed)");
    const std::string own = std::to_string(accident_.rank);
    for (auto found = std::sregex_iterator(result_.err.begin(), result_.err.end(), blame);
         found != std::sregex_iterator(); ++found) {
      if ((*found)[1] != own) return false;
    }
    return true;
  }

  // Checks every line except a line that was being written, the records of each rank if there must be any,
  // and the links in the records.
  bool RecordsIntact() const {
    int ranks_with_record = 0;
    for (const auto& file : std::filesystem::directory_iterator(out_)) {
      std::istringstream lines(bench::ReadText(file.path()));
      std::vector<bench::Record> records;
      int bad = 0;
      for (std::string line; std::getline(lines, line);)
        bad += bench::AddLine(line, &records).empty() ? 0 : 1;
      const bool cut = accident_.place == "records" &&
                       file.path().string().find(Join(".rank", accident_.rank, ".")) != std::string::npos;
      if (bad > (cut ? 1 : 0)) return false;
      if (!records.empty()) ++ranks_with_record;
      for (const bench::Record& record : records) {
        const std::string hosts = Join(accident_.world_size / std::max(ranks_per_host_, 1), " of ",
                                       ranks_per_host_, " ranks, by GRADSYNC_HOST");
        if (ranks_per_host_ > 0 && record.facts.StringOr("hosts", "") != hosts) return false;
      }
    }
    return !accident_.after_first_case() || ranks_with_record == accident_.world_size;
  }

  bool Summarized() const {
    const ProgramResult summary = bench::RunProgram(kSummarize, {out_});
    if (!accident_.after_first_case()) return summary.status >= 0 && summary.status <= 2;
    return summary.status == 0 && summary.out.find(TraitsOf(accident_.strategy).name) != std::string::npos;
  }

  // The process that removes the temporary files ends after the program.
  bool LeftBehind() const {
    for (int i = 0; i < 1000; ++i) {
      if (std::filesystem::is_empty(temporary_) && ProcessesWith(mark_) == 0) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }

  const Accident accident_;
  const int ranks_per_host_;
  const std::string out_;
  const std::string temporary_;
  std::string mark_;
  ProgramResult result_;
};

int Main(int argc, char** argv) {
  int64_t first_seed = 1, runs = 16, hosts = 2, ranks_per_host = 0, timeout_s = 10;
  std::string backend = "gloo", place, strategy;
  FlagTable flags("fault_test", "Runs in which a rank meets with an accident.");
  flags.Add("first_seed", &first_seed, Integer(0, 1'000'000'000),
            "Of the first run; the next has the next one.");
  flags.Add("runs", &runs, Integer(1, 1'000'000), "How many.");
  flags.Add("timeout_s", &timeout_s, Integer(1, 3600), "Their --timeout, in seconds.");
  flags.Add("backend", &backend, Text("a backend"), "Their --backend.");
  flags.Add("ranks_per_host", &ranks_per_host, Integer(0, 64),
            "Of backend hierarchical: so many ranks on each host. 0: all on one.");
  flags.Add("hosts", &hosts, Integer(2, 64), "So many, with --ranks_per_host.");
  flags.Add("place", &place, Text("a place (faulty_ddp.cc)"),
            "Where all accidents happen. At a meeting: to strategies whose ranks share weights over shm.");
  flags.Add("strategy", &strategy, Text("a strategy"), "To which all accidents happen.");
  flags.Parse(argc, argv);

  const comm::TemporaryDirectory directory;
  setenv("TEST_TMPDIR", directory.path().c_str(), 1);
  std::map<std::string, std::map<std::string, int>> outcomes;  // number of runs by kind and outcome
  bool ok = true;
  for (int64_t seed = first_seed; seed < first_seed + runs; ++seed) {
    const Accident accident = RandomAccident(static_cast<int>(seed), static_cast<int>(hosts),
                                             static_cast<int>(ranks_per_host), place, strategy);
    const Run run(accident, backend, static_cast<int>(ranks_per_host), static_cast<int>(timeout_s));
    const std::string outcome = run.Outcome();
    ++outcomes[accident.kind][outcome];
    const bool right = outcome == "as it should" || outcome == "spared";
    std::cout << accident.ToString() << ": " << outcome << std::endl;
    if (!right) std::cout << run.err() << std::endl;
    ok = ok && right;
  }
  for (const auto& [kind, counts] : outcomes) {
    std::cout << kind << ":";
    for (const auto& [outcome, count] : counts) std::cout << "  " << count << " " << outcome;
    std::cout << "\n";
  }
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace gradsync

int main(int argc, char** argv) {
  try {
    return gradsync::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
