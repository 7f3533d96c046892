#include "comm/rendezvous/rendezvous.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "comm/process_group.h"
#include "comm/rendezvous/job.h"
#include "comm/rendezvous/network.h"
#include "comm/rendezvous/store.h"
#include "comm/testing/rank_threads.h"
#include "model/error.h"

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

// A port that was free a moment ago.
std::string FreeTcpUrl() {
  const auto listeners = Listen({.host = "127.0.0.1", .port = "0"}, std::chrono::steady_clock::now(), [] {});
  return Join("tcp://127.0.0.1:", PortOf(listeners[0]));
}

// All ranks meet and read each other's notes.
void Meet(int size, const std::string& url, const std::string& text) {
  RunRanks(size, [&](int rank) {
    Rendezvous rendezvous(MakeWorld(rank, size, url), kLong);
    rendezvous.Set(Join("from_", rank), Join(text, rank));
    for (int other = 0; other < size; ++other) {
      EXPECT_EQ(rendezvous.Get(Join("from_", other), other), Join(text, other));
    }
    rendezvous.Set(Join("done_", rank), "");
    for (int other = 0; other < size; ++other) rendezvous.Get(Join("done_", other), other);
  });
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
    if (rank != 1) Rendezvous(MakeWorld(rank, 4, place), kShort);
  });
  for (const int rank : {0, 2, 3}) {
    EXPECT_EQ(errors[static_cast<size_t>(rank)],
              Join("rank ", rank, ": rank 1 did not arrive at ", place, " within 0.3 s; arrived: 0, 2, 3"));
  }
}

TEST_P(RendezvousTest, NamesTheRankThatLeavesNoNote) {
  const std::string place = url();
  const auto errors = ErrorsOfRanks(2, [&](int rank) {
    Rendezvous rendezvous(MakeWorld(rank, 2, place), kShort);
    if (rank == 0) rendezvous.Get("address", 1);
  });
  EXPECT_EQ(errors[0], Join("rank 0: rendezvous at ", place, ": rank 1 left no note address within 0.3 s"));
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
  // The remains of a run of 4 ranks, whose rank 0 had even answered.
  FileStore store(directory.path());
  for (const int rank : {1, 2, 3}) store.Set(Join("hello.", rank), Join("00000000dead000", rank));
  store.Set("run", "run 00000000beef0000\nrank 1 00000000dead0001\nrank 2 00000000dead0002\n");
  store.Set("00000000beef0000.terms",
            "world size\x1f"
            "4\x1e");
  store.Set("00000000beef0000.ready", "a\nb\nc\nd\n");
  store.Set("00000000beef0000.0.0.note.from_0", "stale");
  store.Set("rank.0.lock", "");
  store.Set("00000000beef0000.joined.1", "");
  Meet(3, url, "fresh ");
}

TEST(FileRendezvousTest, FinishLeavesNothing) {
  const TemporaryDirectory directory;
  RunRanks(2, [&](int rank) {
    Rendezvous rendezvous(MakeWorld(rank, 2, "file://" + directory.path()), kLong);
    rendezvous.Set(Join("done_", rank), "");
    if (rank == 0) rendezvous.Get("done_1", 1);
    rendezvous.Finish();
  });
  EXPECT_TRUE(FileStore(directory.path()).Keys("").empty());
}

// But for the last answer and who it was for.
TEST(FileRendezvousTest, FailureLeavesNothingThatGrows) {
  const TemporaryDirectory directory;
  for (int i = 0; i < 3; ++i) {
    ErrorsOfRanks(2, [&](int rank) {
      Job(MakeWorld(rank, 2, "file://" + directory.path()), {{"rank", std::to_string(rank)}}, kLong);
    });
  }
  EXPECT_EQ(FileStore(directory.path()).Keys(""), (std::vector<std::string>{"hello.1", "run"}));
}

TEST(FileRendezvousTest, MakesTheDirectory) {
  const TemporaryDirectory directory;
  Meet(2, "file://" + directory.path() + "/a/b", "");
}

TEST(FileRendezvousTest, NamesADirectoryItCannotMake) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/file";
  std::ofstream(file) << "not a directory";
  const auto errors =
      ErrorsOfRanks(1, [&](int) { Rendezvous(MakeWorld(0, 2, "file://" + file + "/below"), kShort); });
  EXPECT_EQ(errors[0].find("rank 0: no rendezvous at file://" + file + "/below: cannot write to directory"),
            0u)
      << errors[0];
}

TEST(TcpRendezvousTest, NamesRank0WhenItDoesNotListen) {
  const std::string url = FreeTcpUrl();
  const auto errors = ErrorsOfRanks(
      2, [&](int rank) { rank == 1 ? void(Rendezvous(MakeWorld(1, 2, url), kShort)) : void(); });
  EXPECT_EQ(errors[1], "rank 1: no rendezvous at " + url + ": rank 0 did not answer: Connection refused");
}

TEST(TcpRendezvousTest, NamesAPortInUse) {
  const auto taken = Listen({.host = "127.0.0.1", .port = "0"}, std::chrono::steady_clock::now(), [] {});
  const int port = PortOf(taken[0]);
  const std::string url = Join("tcp://127.0.0.1:", port);
  const auto errors = ErrorsOfRanks(1, [&](int) { Rendezvous(MakeWorld(0, 2, url), kShort); });
  EXPECT_EQ(errors[0], Join("rank 0: no rendezvous at ", url, ": cannot listen on 127.0.0.1 port ", port,
                            ": Address already in use"));
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
      rendezvous.Set(Join("from_", rank), Join(group, rank));
      for (int other = 0; other < 3; ++other) {
        EXPECT_EQ(rendezvous.Get(Join("from_", other), other), Join(group, other));
      }
    }
  });
}

TEST_P(RendezvousTest, NamesTheRankThatIsMissingFromAGroup) {
  const std::string place = url();
  const auto errors = ErrorsOfRanks(3, [&](int rank) {
    const World world = JoinJob(MakeWorld(rank, 3, place), {}, kLong);
    if (rank != 1) Rendezvous(world, kShort);
    std::this_thread::sleep_for(milliseconds(rank == 1 ? 600 : 0));
  });
  for (const int rank : {0, 2}) {
    EXPECT_EQ(errors[static_cast<size_t>(rank)],
              Join("rank ", rank, ": rank 1 did not arrive at ", place, " within 0.3 s; arrived: 0, 2"));
  }
}

TEST_P(RendezvousTest, ASecondProcessOfARankIsTurnedAway) {
  const std::string place = url();
  RunRanks(2, [&](int rank) {
    const World world = JoinJob(MakeWorld(rank, 2, place), {}, kLong);
    if (rank == 1) {
      const auto errors = ErrorsOfRanks(1, [&](int) { Job(MakeWorld(1, 2, place), {}, kLong); });
      EXPECT_EQ(errors[0], Join("rank 1: another process is rank 1 at ", place,
                                ": each job needs a place of its own, or a GRADSYNC_JOB of its own in the "
                                "environment"));
      const auto errors0 = ErrorsOfRanks(1, [&](int) { Job(MakeWorld(0, 2, place), {}, kLong); });
      EXPECT_NE(errors0[0].find("another process is rank 0"), std::string::npos) << errors0[0];
    }
    Rendezvous rendezvous(world, kLong);  // they are not disturbed
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
    Rendezvous rendezvous(world, std::chrono::seconds(3));
    rendezvous.Set(Join("from_", world.rank), job);
    heard[static_cast<size_t>(i)] = rendezvous.Get(Join("from_", 1 - world.rank), 1 - world.rank);
    rendezvous.Set(Join("done_", world.rank), "");
    rendezvous.Get(Join("done_", 1 - world.rank), 1 - world.rank);
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
      EXPECT_EQ(errors[0], Join("rank ", other, ": no rendezvous at ", url,
                                ": rank 0 is of job 'a', this process of job 'b'"));
    }
    rendezvous.Set(Join("done_", rank), "");
    rendezvous.Get(Join("done_", 1 - rank), 1 - rank);
  });
}

}  // namespace
}  // namespace gradsync::comm
