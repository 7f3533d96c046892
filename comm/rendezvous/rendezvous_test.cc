#include "comm/rendezvous/rendezvous.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <thread>

#include "comm/process_group.h"
#include "comm/rendezvous/job.h"
#include "comm/rendezvous/network.h"
#include "comm/rendezvous/place.h"
#include "comm/testing/rank_threads.h"
#include "model/base/error.h"

namespace gradsync::comm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{30'000};
constexpr milliseconds kShort{300};

World MakeWorld(int rank, int size, const std::string& url) {
  return {.rank = rank,
          .size = size,
          .local_rank = rank,
          .local_size = size,
          .rendezvous = url,
          .launcher = "self"};
}

// All ranks meet, and tell all others the same and each other one something.
void Meet(int size, const std::string& url, const std::string& text) {
  RunRanks(size, [&](int rank) {
    Rendezvous rendezvous(MakeWorld(rank, size, url), kLong);
    std::vector<std::string> own;
    for (int other = 0; other < size; ++other) own.push_back(Join(text, rank, " to ", other));
    const std::vector<std::string> same = rendezvous.Exchange({Join(text, rank)});
    const std::vector<std::string> each = rendezvous.Exchange(own);
    for (int other = 0; other < size; ++other) {
      EXPECT_EQ(same.at(static_cast<size_t>(other)), Join(text, other));
      EXPECT_EQ(each.at(static_cast<size_t>(other)), Join(text, other, " to ", rank));
    }
  });
}

// Takes part in a rendezvous, for a test that does not look at the other ranks.
void Arrive(const World& world, milliseconds timeout) { Rendezvous(world, timeout).Exchange({""}); }

std::vector<std::string> FilesIn(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.push_back(entry.path().filename());
  return names;
}

class RendezvousTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::string url() const {
    return GetParam() == "file" ? "file://" + directory_.path() + "/meet" : FreeTcpUrl();
  }
  TemporaryDirectory directory_;
};

INSTANTIATE_TEST_SUITE_P(Places, RendezvousTest, ::testing::Values("file", "tcp"));

TEST_P(RendezvousTest, RanksMeet) { Meet(4, url(), "hello from "); }

TEST_P(RendezvousTest, TheSamePlaceServesOneRunAfterTheOther) {
  const std::string place = url();
  // Nothing cleans up in between: the second run must not take up what the first one left.
  Meet(3, place, "first ");
  Meet(3, place, "second ");
  Meet(2, place, "third ");
}

TEST_P(RendezvousTest, NamesTheMissingRank) {
  const std::string place = url();
  const auto errors = ErrorsOfRanks(4, [&](int rank) {
    if (rank != 1) Arrive(MakeWorld(rank, 4, place), kShort);
  });
  for (const int rank : {0, 2, 3}) {
    EXPECT_EQ(errors[static_cast<size_t>(rank)],
              Join("rank ", rank, ": rank 1 did not arrive at ", place, " within 0.3 s; arrived: 0, 2, 3"));
  }
}

TEST_P(RendezvousTest, NamesTheRankThatComesNoFurther) {
  const std::string place = url();
  const auto errors = ErrorsOfRanks(2, [&](int rank) {
    Rendezvous rendezvous(MakeWorld(rank, 2, place), kShort);
    rendezvous.Exchange({""});
    if (rank == 0) rendezvous.Exchange({""});
    std::this_thread::sleep_for(milliseconds(rank == 0 ? 0 : 600));
  });
  EXPECT_EQ(errors[0], Join("rank 0: rank 1 did not arrive at ", place, " within 0.3 s; arrived: 0"));
  EXPECT_EQ(errors[1], "");
}

TEST_P(RendezvousTest, NamesASizeMismatchOnEachRank) {
  const std::string place = url();
  const auto errors =
      ErrorsOfRanks(3, [&](int rank) { Rendezvous(MakeWorld(rank, rank == 2 ? 4 : 3, place), kLong); });
  for (const int rank : {0, 1, 2}) {
    EXPECT_EQ(errors[static_cast<size_t>(rank)],
              Join("rank ", rank, ": world size: rank 0 has 3, rank 2 has 4"));
  }
}

TEST(FileRendezvousTest, IgnoresWhatACrashedRunLeft) {
  const TemporaryDirectory directory;
  const std::string url = "file://" + directory.path();
  // Where nobody listens any more, where somebody else does, and nonsense.
  const auto taken = Listen({.host = "127.0.0.1", .port = "0"}, std::chrono::steady_clock::now(), [] {});
  for (const std::string& text :
       {std::string("127.0.0.1 9 00000000dead0000"), Join("127.0.0.1 ", PortOf(taken[0]), " 0"),
        std::string("127.0.0.1"), std::string(10'000, 'x'), std::string()}) {
    std::ofstream(directory.Path("rank0")) << text;
    Meet(3, url, "fresh ");
  }
}

// Where rank 0 of another run has since begun to listen.
TEST(FileRendezvousTest, IgnoresTheAddressOfAnotherRun) {
  const TemporaryDirectory directory;
  const std::string url = FreeTcpUrl();
  const std::string port = url.substr(url.rfind(':') + 1);
  const auto meet_elsewhere = [&](int rank) { Job(MakeWorld(rank, 2, url), {}, kLong); };
  std::thread other(meet_elsewhere, 0);
  for (bool listens = false; !listens;) {
    listens = ErrorsOfRanks(1,
                            [&](int) {
                              Connect({"127.0.0.1", port}, std::chrono::steady_clock::now());
                            })[0]
                  .empty();
  }
  std::ofstream(directory.Path("rank0")) << "127.0.0.1 " << port << " 00000000dead0000\n";
  Meet(2, "file://" + directory.path(), "own ");
  meet_elsewhere(1);
  other.join();
}

// Opened, it would hold a rank until somebody writes to it.
TEST(FileRendezvousTest, AFifoHoldsNobody) {
  const TemporaryDirectory directory;
  const std::string url = "file://" + directory.path();
  ASSERT_EQ(mkfifo(directory.Path("rank0").c_str(), 0600), 0);
  const auto errors =
      ErrorsOfRanks(2, [&](int rank) { rank == 1 ? Arrive(MakeWorld(1, 2, url), kShort) : void(); });
  EXPECT_EQ(errors[1], "rank 1: rank 0 did not arrive at " + url + " within 0.3 s");
  Meet(2, url, "");
}

TEST(FileRendezvousTest, RanksThatHaveMetLeaveNothing) {
  const TemporaryDirectory directory;
  RunRanks(2, [&](int rank) {
    Rendezvous rendezvous(MakeWorld(rank, 2, "file://" + directory.path()), kLong);
    rendezvous.Exchange({""});
    EXPECT_EQ(FilesIn(directory.path()), std::vector<std::string>());
  });
}

// What rank 0 writes while it waits for rank 1, of whose host its launcher may say nothing.
std::vector<std::string> FilesWhileWaiting(const std::string& name, const std::string& secret,
                                           const std::string& expected_address = "127.0.0.1") {
  const TemporaryDirectory directory;
  const auto join = [&](int rank) {
    World world = MakeWorld(rank, 2, "file://" + directory.path());
    world.job_name = name;
    world.job_secret = secret;
    if (expected_address != "127.0.0.1") world.local_size = 0;
    Job(world, {}, kLong);
  };
  std::thread rank0(join, 0);
  std::vector<std::string> files;
  while (files.empty() || files[0].starts_with(".rank0.")) files = FilesIn(directory.path());
  std::ifstream file(directory.Path(files[0]));
  std::string address, port, run;
  file >> address >> port >> run;
  EXPECT_EQ(address, expected_address);
  EXPECT_EQ(run.size(), 32u);
  join(1);
  rank0.join();
  return files;
}

TEST(FileRendezvousTest, NoFileNameDependsOnTheSecret) {
  EXPECT_EQ(FilesWhileWaiting("", ""), std::vector<std::string>{"rank0"});
  EXPECT_EQ(FilesWhileWaiting("", "secret"), std::vector<std::string>{"rank0"});
  EXPECT_EQ(FilesWhileWaiting("a", "secret"), FilesWhileWaiting("a", "another"));
  EXPECT_NE(FilesWhileWaiting("a", "secret"), FilesWhileWaiting("b", "secret"));
}

TEST(FileRendezvousTest, Rank0ListensWhereOtherHostsReachIt) {
  if (OuterAddress().empty()) GTEST_SKIP() << "this machine has no network";
  FilesWhileWaiting("", "", OwnAddress(std::chrono::steady_clock::now() + kLong));
}

TEST(FileRendezvousTest, ARunRemovesItsOwnFileAlone) {
  const TemporaryDirectory directory;
  const Place place("file://" + directory.path(), "");
  place.Publish({{"127.0.0.1", "1"}, "run"});
  for (const auto& [run, num_left] : {std::pair("another", 1u), {"run", 0u}}) {
    place.Withdraw(run);
    EXPECT_EQ(FilesIn(directory.path()).size(), num_left);
  }
}

TEST(FileRendezvousTest, FailureLeavesNothing) {
  const TemporaryDirectory directory;
  for (int i = 0; i < 3; ++i) {
    ErrorsOfRanks(2, [&](int rank) {
      Job(MakeWorld(rank, 2, "file://" + directory.path()), {{"rank", std::to_string(rank)}}, kLong);
    });
  }
  EXPECT_EQ(FilesIn(directory.path()), std::vector<std::string>());
}

TEST(FileRendezvousTest, MakesTheDirectoryOrNamesIt) {
  const TemporaryDirectory directory;
  Meet(2, "file://" + directory.path() + "/a/b", "");
  const std::string file = directory.path() + "/file";
  std::ofstream(file) << "not a directory";
  const auto errors =
      ErrorsOfRanks(1, [&](int) { Rendezvous(MakeWorld(0, 2, "file://" + file + "/below"), kShort); });
  EXPECT_EQ(errors[0].find("rank 0: rendezvous at file://" + file + "/below: cannot write to directory"), 0u)
      << errors[0];
}

TEST(TcpRendezvousTest, NamesRank0WhenItDoesNotListen) {
  const std::string url = FreeTcpUrl();
  const auto errors =
      ErrorsOfRanks(2, [&](int rank) { rank == 1 ? Arrive(MakeWorld(1, 2, url), kShort) : void(); });
  EXPECT_EQ(errors[1], "rank 1: rank 0 did not arrive at " + url + " within 0.3 s: Connection refused");
}

// Where a host's name means loopback, as in Debian's own /etc/hosts, other hosts could not connect.
TEST(TcpRendezvousTest, SaysWhyRank0CannotListenForOtherHosts) {
  const std::string free = FreeTcpUrl();
  const std::string name = "127.0.0.1+127.0.0.2.test";
  const std::string url = "tcp://" + name + free.substr(free.rfind(':'));
  World world = MakeWorld(0, 2, url);
  for (world.local_size = 0; world.local_size < 2; ++world.local_size) {
    const auto errors = ErrorsOfRanks(1, [&](int) { Rendezvous(world, kLong); });
    EXPECT_EQ(errors[0], "rank 0: rendezvous at " + url + ": rank 0 cannot listen on " + name +
                             " for other hosts, because that name means "
                             "loopback here: name an address of this host, or 0.0.0.0 for all that it has");
  }
  Meet(2, url, "");  // on one host
}

TEST(TcpRendezvousTest, ANameServerThatDoesNotAnswerHoldsNobody) {
  const auto errors =
      ErrorsOfRanks(2, [&](int rank) { Rendezvous(MakeWorld(rank, 2, "tcp://silent.test:4000"), kShort); });
  const std::string cause = ": cannot resolve host silent.test: the name server does not answer";
  EXPECT_EQ(errors[0], "rank 0: rendezvous at tcp://silent.test:4000" + cause);
  EXPECT_EQ(errors[1], "rank 1: rank 0 did not arrive at tcp://silent.test:4000 within 0.3 s" + cause);
}

TEST(TcpRendezvousTest, NamesAPortInUse) {
  const auto taken = Listen({.host = "127.0.0.1", .port = "0"}, std::chrono::steady_clock::now(), [] {});
  const int port = PortOf(taken[0]);
  const std::string url = Join("tcp://127.0.0.1:", port);
  const auto errors = ErrorsOfRanks(1, [&](int) { Rendezvous(MakeWorld(0, 2, url), kShort); });
  EXPECT_EQ(errors[0], Join("rank 0: rendezvous at ", url, ": cannot listen on 127.0.0.1 port ", port,
                            ": Address already in use"));
}

TEST(RendezvousUrlTest, MalformedUrlsAreQuoted) {
  const auto error_of = [](const std::string& url) {
    return ErrorsOfRanks(1, [&](int) { Place(url, ""); })[0];
  };
  EXPECT_EQ(error_of("/tmp/x"), "rendezvous is '/tmp/x', expected file:///directory or tcp://host:port");
  EXPECT_EQ(error_of("file://tmp/x"), "rendezvous is 'file://tmp/x', expected file:///absolute/directory");
  EXPECT_EQ(error_of("tcp://host"),
            "rendezvous is 'tcp://host', expected tcp://host:port with a port from 1 to 65535");
}

// Terms: what a rank has, by name.
TEST_P(RendezvousTest, TheFirstDifferenceIsNamedOnEachRank) {
  const std::string place = url();
  const auto errors = ErrorsOfRanks(4, [&](int rank) {
    const Terms terms = {
        {"--model", "small"}, {"--seed", rank == 2 ? "1\n2" : ""}, {"--steps", std::to_string(rank)}};
    // Ranks 1 and 3 would differ in their steps; they come when it is settled.
    if (rank == 1 || rank == 3) std::this_thread::sleep_for(milliseconds(500));
    Job(MakeWorld(rank, 4, place), terms, kLong);
  });
  EXPECT_EQ(errors[0], "rank 0: --seed: rank 0 has nothing, rank 2 has 1 2");
  EXPECT_EQ(errors[2], "rank 2: --seed: rank 0 has nothing, rank 2 has 1 2");
}

TEST_P(RendezvousTest, TermsOfOneRankAloneAreNamed) {
  for (const int rank_with_more : {0, 1}) {
    const std::string place = url();
    const auto errors = ErrorsOfRanks(2, [&](int rank) {
      Terms terms = {{"a", "1"}};
      if (rank == rank_with_more) terms.emplace_back("b", "2");
      Job(MakeWorld(rank, 2, place), terms, kLong);
    });
    for (const int rank : {0, 1}) {
      EXPECT_EQ(errors[static_cast<size_t>(rank)],
                Join("rank ", rank, ": b: only rank ", rank_with_more, " has it"));
    }
  }
}

TEST_P(RendezvousTest, ARankMayOpenAsMuchAsTheSystemLetsIt) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low = {.rlim_cur = before.rlim_max - 1, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const std::string place = url();
  RunRanks(2, [&](int rank) { JoinJob(MakeWorld(rank, 2, place), {}, kLong); });
  rlimit after{};
  getrlimit(RLIMIT_NOFILE, &after);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  setrlimit(RLIMIT_NOFILE, &before);
}

// Rank 1 is of another build, and says so as JoinJob does.
TEST_P(RendezvousTest, RanksOfDifferentBuildsDoNotTrainTogether) {
  const std::string place = url();
  std::ifstream program("/proc/self/exe", std::ios::binary);
  const size_t hash = std::hash<std::string>()({std::istreambuf_iterator<char>(program), {}});
  std::ostringstream own;
  own << std::hex << hash;
  const auto errors = ErrorsOfRanks(2, [&](int rank) {
    const World world = MakeWorld(rank, 2, place);
    rank == 0 ? void(JoinJob(world, {}, kLong)) : void(Job(world, {{"program", "another"}}, kLong));
  });
  EXPECT_EQ(errors[1], "rank 1: program: rank 0 has " + own.str() + ", rank 1 has another");
}

TEST_P(RendezvousTest, AJobFormsManyGroupsAndKnowsItsHosts) {
  const std::string place = url();
  RunRanks(3, [&](int rank) {
    World world = MakeWorld(rank, 3, place);
    world.host = rank == 1 ? "elsewhere" : "here";
    world.local_size = 0;
    world = JoinJob(world, {{"--seed", "0"}}, kLong);
    EXPECT_EQ(world.local_rank, rank == 2 ? 1 : 0);
    EXPECT_EQ(world.local_size, rank == 1 ? 1 : 2);
    for (int group = 0; group < 3; ++group) {
      Rendezvous rendezvous(world, kLong);
      EXPECT_EQ(rendezvous.hosts(), (std::vector<std::string>{"here", "elsewhere", "here"}));
      EXPECT_EQ(rendezvous.Exchange({Join(group, rank)}),
                (std::vector<std::string>{Join(group, 0), Join(group, 1), Join(group, 2)}));
    }
  });
}

TEST_P(RendezvousTest, NamesTheRankThatIsMissingFromAGroup) {
  const std::string place = url();
  const auto errors = ErrorsOfRanks(3, [&](int rank) {
    const World world = JoinJob(MakeWorld(rank, 3, place), {}, kLong);
    if (rank != 1) Arrive(world, kShort);
    std::this_thread::sleep_for(milliseconds(rank == 1 ? 600 : 0));
  });
  for (const int rank : {0, 2}) {
    EXPECT_EQ(errors[static_cast<size_t>(rank)],
              Join("rank ", rank, ": rank 1 did not arrive at ", place, " within 0.3 s; arrived: 0, 2"));
  }
}

TEST_P(RendezvousTest, ASecondProcessOfARankIsTurnedAway) {
  const std::string place = url();
  RunRanks(3, [&](int rank) {
    if (rank == 2) {  // the others wait for this one
      std::this_thread::sleep_for(milliseconds(200));
      const auto errors = ErrorsOfRanks(2, [&](int other) { Job(MakeWorld(other, 3, place), {}, kLong); });
      const std::string cause = "rendezvous at " + place + ": another process is rank ";
      EXPECT_EQ(errors[0], "rank 0: " + cause + "0 there");
      EXPECT_EQ(errors[1],
                "rank 1: " + cause +
                    "1 there: each job needs a place of its own, or a GRADSYNC_JOB of its own in the "
                    "environment");
    }
    Arrive(MakeWorld(rank, 3, place), kLong);  // they are not disturbed
  });
}

// A second run of the same ranks, of which some are there before the first run has ended.
TEST_P(RendezvousTest, ARunMayBeginWhileAnotherEnds) {
  const std::string place = url();
  RunRanks(2, [&](int rank) {
    {
      const Job first(MakeWorld(rank, 2, place), {}, kLong);
      std::this_thread::sleep_for(milliseconds(rank == 0 ? 300 : 0));
    }
    EXPECT_EQ(Rendezvous(MakeWorld(rank, 2, place), kLong).Exchange({rank == 0 ? "second" : ""})[0],
              "second");
  });
}

// Two jobs of two ranks each, all at once at one place. Returns what each of the four got to hear of the
// other rank of its group, if it found one.
std::vector<std::string> MeetTwice(const std::string& place, bool have_names,
                                   std::vector<std::string>& heard) {
  heard.assign(4, "");
  return ErrorsOfRanks(4, [&](int i) {
    const std::string job = i < 2 ? "a" : "b";
    World world = MakeWorld(i % 2, 2, place);
    if (have_names) world.job_name = job;
    world = JoinJob(world, {{"--out", job}}, std::chrono::seconds(3));
    heard[static_cast<size_t>(i)] =
        Rendezvous(world, std::chrono::seconds(3)).Exchange({job})[static_cast<size_t>(1 - world.rank)];
  });
}

TEST_P(RendezvousTest, JobsThatMeetDoNotExchangeRanks) {
  for (int i = 0; i < 5; ++i) {
    std::vector<std::string> heard;
    const auto errors = MeetTwice(url(), /*have_names=*/false, heard);
    for (size_t process = 0; process < 4; ++process) {
      // Either it has found its own, or it says why not.
      EXPECT_EQ(heard[process], errors[process].empty() ? (process < 2 ? "a" : "b") : "") << errors[process];
    }
  }
}

TEST(FileRendezvousTest, JobsWithNamesShareADirectory) {
  const TemporaryDirectory directory;
  for (int i = 0; i < 10; ++i) {
    std::vector<std::string> heard;
    const auto errors = MeetTwice("file://" + directory.path(), /*have_names=*/true, heard);
    EXPECT_EQ(errors, std::vector<std::string>(4));
    EXPECT_EQ(heard, (std::vector<std::string>{"a", "a", "b", "b"}));
  }
}

TEST(FileRendezvousTest, AJobWithoutASecretThatOthersReachSaysSo) {
  for (const std::string secret : {"", "a secret of its ranks"}) {
    const TemporaryDirectory directory;
    testing::internal::CaptureStderr();
    RunRanks(2, [&](int rank) {
      World world = MakeWorld(rank, 2, "file://" + directory.path());
      world.local_size = 0;
      world.job_secret = secret;
      JoinJob(world, {}, kLong);
    });
    const std::string said = testing::internal::GetCapturedStderr();
    const bool is_reached = secret.empty() && !OuterAddress().empty();
    EXPECT_EQ(said.find(Join("rank 0 listens at ", OuterAddress(), " port ")), is_reached ? 0 : said.npos)
        << said;
    EXPECT_EQ(std::ranges::count(said, '\n'), is_reached ? 1 : 0);
  }
}

TEST(TcpRendezvousTest, AnotherJobIsNamedAtOnce) {
  const std::string url = FreeTcpUrl();
  RunRanks(2, [&](int rank) {
    World world = MakeWorld(rank, 2, url);
    world.job_name = "a";
    world = JoinJob(world, {}, kLong);
    Rendezvous rendezvous(world, kLong);
    for (const int other : {0, 1}) {
      const auto errors = ErrorsOfRanks(1, [&](int) {
        World stranger = MakeWorld(other, 2, url);
        stranger.job_name = "b";
        JoinJob(stranger, {}, kLong);
      });
      EXPECT_EQ(errors[0],
                Join("rank ", other, ": rendezvous at ", url, ": rank 0 is of another job than 'b'"));
    }
    rendezvous.Exchange({""});
  });
}

}  // namespace
}  // namespace gradsync::comm
