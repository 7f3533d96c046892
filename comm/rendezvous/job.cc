#include "comm/rendezvous/job.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "comm/processes/random.h"
#include "comm/rendezvous/store_server.h"

namespace gradsync::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kBetweenNameAndValue[] = "\x1f";
constexpr char kBetweenTerms[] = "\x1e";

constexpr milliseconds kRetry{20};
// Timeout for an answer of another rank 0, and for its end.
constexpr milliseconds kProbe{200};
constexpr seconds kLeaveWithin{1};
// The time for rank 0 to report, because its message has more information.
constexpr milliseconds kLetRank0Speak{500};

std::string Pack(const Terms& terms) {
  return absl::StrJoin(terms, kBetweenTerms, absl::PairFormatter(kBetweenNameAndValue));
}

Terms Unpack(const std::string& text) {
  Terms terms;
  for (const absl::string_view term : absl::StrSplit(text, kBetweenTerms))
    terms.emplace_back(absl::StrSplit(term, absl::MaxSplits(kBetweenNameAndValue, 1)));
  return terms;
}

std::string InLine(const std::string& value) {
  return value.empty() ? "nothing" : absl::StrReplaceAll(value, {{"\n", " "}});
}

// Describes the first difference between a rank's terms and rank 0's; empty if there is none.
std::string Difference(const Terms& of_rank0, int rank, const Terms& of_rank) {
  for (size_t i = 0; i < std::max(of_rank0.size(), of_rank.size()); ++i) {
    if (i >= of_rank0.size() || i >= of_rank.size() || of_rank0[i].first != of_rank[i].first) {
      const bool more = i < of_rank.size();
      return Join(more ? of_rank[i].first : of_rank0[i].first, ": only rank ", more ? rank : 0, " has it");
    }
    const auto& [name, value] = of_rank[i];
    const std::string& value0 = of_rank0[i].second;
    if (value != value0)
      return Join(name, ": rank 0 has ", InLine(value0), ", rank ", rank, " has ", InLine(value));
  }
  return "";
}

// Returns a text that is equal for equal bytes of the program.
std::string ProgramFingerprint() {
  std::ifstream program("/proc/self/exe", std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(program), {});
  return absl::StrCat(absl::Hex(std::hash<std::string>()(bytes)));
}

}  // namespace

std::string DescribeMissingRanks(const World& world, milliseconds timeout,
                                 const std::function<bool(int rank)>& has_arrived) {
  std::vector<int> missing;
  std::vector<int> arrived;
  for (int rank = 0; rank < world.size; ++rank)
    (has_arrived(rank) ? arrived : missing).push_back(world.NameOf(rank));
  return Join(missing.size() > 1 ? "ranks " : "rank ", absl::StrJoin(missing, ", "), " did not arrive at ",
              world.rendezvous, " within ", Seconds(timeout),
              arrived.empty() ? "" : "; arrived: ", absl::StrJoin(arrived, ", "));
}

Job::Job(const World& world, const Terms& terms, milliseconds timeout)
    : world_(world), timeout_(timeout), deadline_(Clock::now() + timeout) {
  const Place place(world.rendezvous, world.job_name);
  const std::string host = HostOf(world);
  Terms all_terms = {{"world size", std::to_string(world.size)}};
  all_terms.insert(all_terms.end(), terms.begin(), terms.end());
  WithRendezvousErrors(world, [&] {
    if (world.rank == 0) {
      Serve(place, host, all_terms);
    } else {
      Enter(place, host, all_terms);
    }
  });
}

bool Job::HasRank0(const Place& place) {
  const auto rank0 = place.Find();
  if (!rank0.has_value()) return false;
  try {
    StoreClient(rank0->address, identity(), rank0->run, std::min(deadline_, Clock::now() + kProbe));
  } catch (const Refused&) {
    throw;
  } catch (const std::runtime_error&) {
    return false;  // no rank 0 is at the place
  }
  other_leaves_by_ = std::min(other_leaves_by_, Clock::now() + kLeaveWithin);
  if (Clock::now() >= other_leaves_by_) throw Refused("another process is rank 0 there");
  return true;
}

void Job::Serve(const Place& place, const std::string& host, const Terms& terms) {
  const bool is_one_host = world_.local_size == world_.size;
  Rank0 self = place.Find().value_or(Rank0{});
  if (place.is_file()) {
    while (HasRank0(place)) std::this_thread::sleep_for(kRetry);
    self = {{is_one_host ? LoopbackAddress(deadline_) : OwnAddress(deadline_), "0"}, RandomHex()};
  } else if (!is_one_host && IsLoopbackOnlyHere(self.address.host, deadline_)) {
    throw std::runtime_error(Join("rank 0 cannot listen on ", self.address.host,
                                  " for other hosts, because that name means loopback here: name an "
                                  "address of this host, or 0.0.0.0 for all that it has"));
  }
  auto server = std::make_unique<StoreServer>(
      Listen(self.address, deadline_, [&] { HasRank0(place); }),
      StoreServer::Options{.job = identity(),
                           .run = self.run,
                           .size = world_.size,
                           .host = host,
                           .check = [terms](int rank, const std::string& of_rank) {
                             return Difference(terms, rank, Unpack(of_rank));
                           }});
  self.address.port = std::to_string(server->port());
  if (world_.job_secret.empty() && !IsLoopback(self.address.host, deadline_)) {
    std::fprintf(stderr,
                 "rank 0 listens at %s port %s without a secret: whoever reaches it can join or end this run "
                 "(GRADSYNC_SECRET, the same for all ranks, keeps others out)\n",
                 self.address.host.c_str(), self.address.port.c_str());
  }
  if (place.is_file()) place.Publish(self);
  const absl::Cleanup withdraw = [&] {
    if (place.is_file()) place.Withdraw(self.run);
  };
  hosts_ = server->WaitForRanks(
      deadline_, [&](const auto& has_joined) { return DescribeMissingRanks(world_, timeout_, has_joined); });
  store_ = std::move(server);
}

std::unique_ptr<StoreClient> Job::ConnectToRank0(const Place& place) const {
  // The patience grows in each round, for a distant rank 0.
  constexpr seconds kMaxPatience{30};
  std::string reason;
  for (seconds patience{1};; patience = std::min(2 * patience, kMaxPatience)) {
    try {
      if (const auto rank0 = place.Find(); rank0.has_value()) {
        return std::make_unique<StoreClient>(rank0->address, identity(), rank0->run,
                                             std::min(deadline_, Clock::now() + patience));
      }
    } catch (const Refused&) {
      throw;
    } catch (const std::runtime_error& error) {
      reason = gradsync::Join(": ", error.what());
    }
    if (Clock::now() >= deadline_) {
      throw JobFailed(
          Join("rank 0 did not arrive at ", world_.rendezvous, " within ", Seconds(timeout_), reason));
    }
    std::this_thread::sleep_for(kRetry);
  }
}

void Job::Enter(const Place& place, const std::string& host, const Terms& terms) {
  for (;;) {
    auto client = ConnectToRank0(place);
    const auto hosts = client->Join(world_.rank, host, Pack(terms), deadline_ + kLetRank0Speak);
    if (hosts.has_value()) {
      hosts_ = *hosts;
      store_ = std::move(client);
      return;
    }
    if (Clock::now() >= deadline_) throw std::runtime_error("the run there began without this process");
    std::this_thread::sleep_for(kRetry);
  }
}

std::string Job::NextGroup(const std::vector<int>& members) {
  const std::lock_guard lock(mutex_);
  return absl::StrCat(ComputeMac("", absl::StrJoin(members, ",")), ".", num_groups_[members]++);
}

World JoinJob(const World& world, const Terms& terms, milliseconds timeout) {
  if (world.size == 1) return world;
  RaiseDescriptorLimit();  // a rank has up to four for each other rank
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

std::vector<std::string> HostsOf(const World& world) {
  if (world.size == 1) return {""};
  Require(world.job != nullptr, "the ranks have not met, expected JoinJob before");
  std::vector<std::string> hosts;
  for (int rank = 0; rank < world.size; ++rank)
    hosts.push_back(world.job->hosts()[static_cast<size_t>(world.NameOf(rank))]);
  return hosts;
}

World PartOf(const World& world, const std::vector<int>& members) {
  const auto own = std::ranges::find(members, world.rank);
  const bool is_rising = std::ranges::adjacent_find(members, std::ranges::greater_equal()) == members.end();
  Require(own != members.end() && is_rising && members.front() >= 0 && members.back() < world.size,
          "members are ", absl::StrJoin(members, ", "), ", expected ranks of a world of ", world.size,
          " in rising order with rank ", world.rank, " among them");
  const std::vector<std::string> hosts = HostsOf(world);
  World part = world;
  part.rank = static_cast<int>(own - members.begin());
  part.size = static_cast<int>(members.size());
  part.members = members;
  part.local_rank = part.local_size = 0;
  for (int& member : part.members) {
    const bool is_here = hosts[static_cast<size_t>(member)] == hosts[static_cast<size_t>(world.rank)];
    part.local_rank += is_here && member < world.rank ? 1 : 0;
    part.local_size += is_here ? 1 : 0;
    member = world.NameOf(member);
  }
  return part;
}

}  // namespace gradsync::comm
