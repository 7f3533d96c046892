#include "comm/rendezvous.h"

#include <gtest/gtest.h>

#include <fstream>

#include "comm/process_group.h"
#include "comm/rank_threads.h"
#include "comm/tcp_store.h"
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
  const TcpStoreServer server({.host = "127.0.0.1", .port = "0"}, std::chrono::steady_clock::now());
  return Join("tcp://127.0.0.1:", server.port());
}

// All ranks meet and read each other's notes.
void Meet(int size, const std::string& url, const std::string& text) {
  RunRanks(size, [&](int rank) {
    Rendezvous rendezvous(MakeWorld(rank, size, url), kLong);
    rendezvous.Set(Join("from_", rank), Join(text, rank));
    for (int other = 0; other < size; ++other) {
      EXPECT_EQ(rendezvous.Get(Join("from_", other)), Join(text, other));
    }
    rendezvous.Set(Join("done_", rank), "");
    for (int other = 0; other < size; ++other) rendezvous.Get(Join("done_", other));
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

TEST_P(RendezvousTest, NamesASizeMismatchOnEachRank) {
  const std::string place = url();
  const auto errors =
      ErrorsOfRanks(3, [&](int rank) { Rendezvous(MakeWorld(rank, rank == 2 ? 4 : 3, place), kLong); });
  for (const int rank : {0, 1, 2}) {
    EXPECT_EQ(errors[static_cast<size_t>(rank)],
              Join("rank ", rank, ": rank 2 was started for a world of 4 ranks, rank 0 for one of 3"));
  }
}

TEST(FileRendezvousTest, IgnoresWhatACrashedRunLeft) {
  const TemporaryDirectory directory;
  const std::string url = "file://" + directory.path();
  // The remains of a run of 4 ranks, whose rank 0 had even answered.
  FileStore store(directory.path());
  for (const int rank : {1, 2, 3}) store.Set(Join("hello.", rank), Join("00000000dead000", rank, " 4"));
  store.Set("run", "run 00000000beef0000 4\nrank 1 00000000dead0001\nrank 2 00000000dead0002\n");
  store.Set("00000000beef0000.ready", "");
  store.Set("00000000beef0000.note.from_0", "stale");
  store.Set("00000000beef0000.joined.1", "");
  Meet(3, url, "fresh ");
}

TEST(FileRendezvousTest, FinishLeavesNothing) {
  const TemporaryDirectory directory;
  RunRanks(2, [&](int rank) {
    Rendezvous rendezvous(MakeWorld(rank, 2, "file://" + directory.path()), kLong);
    rendezvous.Set(Join("done_", rank), "");
    if (rank == 0) rendezvous.Get("done_1");
    rendezvous.Finish();
  });
  EXPECT_TRUE(FileStore(directory.path()).Keys("").empty());
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
  const TcpStoreServer server({.host = "", .port = "0"}, std::chrono::steady_clock::now());
  const std::string url = Join("tcp://127.0.0.1:", server.port());
  const auto errors = ErrorsOfRanks(1, [&](int) { Rendezvous(MakeWorld(0, 2, url), kShort); });
  EXPECT_EQ(errors[0], Join("rank 0: no rendezvous at ", url, ": cannot listen on port ", server.port(),
                            ": Address already in use"));
}

TEST(TcpStoreTest, SurvivesStrangers) {
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  TcpStoreServer server({.host = "", .port = "0"}, deadline);
  TcpStoreClient client({.host = "localhost", .port = std::to_string(server.port())}, deadline);
  {
    // A key of 4 GiB is announced: the server drops the connection, which is an error here alone.
    TcpStoreClient stranger({.host = "127.0.0.1", .port = std::to_string(server.port())}, deadline);
    EXPECT_THROW(stranger.Set(std::string(2 << 20, 'x'), ""), std::runtime_error);
  }
  client.Set("key", std::string("a\0b", 3));
  EXPECT_EQ(client.Get("key"), std::string("a\0b", 3));
  EXPECT_EQ(server.Get("key"), std::string("a\0b", 3));
  EXPECT_EQ(client.Get("nothing"), std::nullopt);
  client.Set("kez", "");
  EXPECT_EQ(client.Get("kez"), "");
  EXPECT_EQ(client.Keys("ke"), (std::vector<std::string>{"key", "kez"}));
  client.Remove("key");
  EXPECT_EQ(client.Get("key"), std::nullopt);
}

TEST(RendezvousUrlTest, MalformedUrlsAreQuoted) {
  const auto error_of = [](const std::string& url) -> std::string {
    try {
      OpenStore(url, false, std::chrono::steady_clock::now());
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of("/tmp/x"), "rendezvous is '/tmp/x', expected file:///directory or tcp://host:port");
  EXPECT_EQ(error_of("file://tmp/x"), "rendezvous is 'file://tmp/x', expected file:///absolute/directory");
  for (const std::string url : {"tcp://host", "tcp://:12", "tcp://host:", "tcp://host:99999", "tcp://host:1x",
                                "tcp://a:b:1", "tcp://host:0"}) {
    EXPECT_EQ(error_of(url), "rendezvous is '" + url + "', expected tcp://host:port");
  }
  EXPECT_EQ(ParseHostPort("[::1]:80", "").host, "::1");
}

TEST(OwnAddressTest, IsTheOneThatLeadsToThePeer) {
  EXPECT_EQ(OwnAddressTowards({.host = "127.0.0.1", .port = "9"}), "127.0.0.1");
  try {
    OwnAddressTowards({.host = "no-such-host.invalid", .port = "9"});
    FAIL() << "a host that is not there was resolved";
  } catch (const std::runtime_error& error) {
    EXPECT_TRUE(std::string_view(error.what()).starts_with("cannot resolve host no-such-host.invalid: "))
        << error.what();
  }
}

}  // namespace
}  // namespace gradsync::comm
