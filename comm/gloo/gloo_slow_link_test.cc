#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "comm/gloo/gloo_collectives.h"
#include "comm/gloo/gloo_mesh.h"
#include "comm/gloo/gloo_process_group.h"
#include "comm/queue/first_cause.h"
#include "comm/testing/errors.h"
#include "comm/testing/rank_threads.h"
#include "model/tensor/tensor.h"

// Messages that take their time, and messages that are stuck.
namespace gradsync::comm {
namespace {

using model::Tensor;
using ::testing::HasSubstr;

// A rank 1 made by hand, in a collective whose data it takes and gives as it likes.
struct HandMadePeer {
  HandMadePeer(GlooMesh& mesh, const Tensor& tensor, uint64_t slot)
      : incoming(mesh, 0, slot, tensor.raw_data(), tensor.nbytes()),
        outgoing(mesh, 0, slot, tensor.raw_data(), tensor.nbytes()),
        receipts(mesh, 0, slot + 3, nullptr, 0) {}

  Incoming incoming;
  Outgoing outgoing, receipts;
};

// What rank 0 of two, with a timeout of 2 s, says of a collective of `numel` elements with such a peer, which
// leaves only afterwards.
std::string ErrorWithPeer(Collective collective, int64_t numel,
                          const std::function<void(HandMadePeer& peer)>& body) {
  const TemporaryDirectory directory;
  std::atomic<bool> has_ended = false;
  return ErrorsOfRanks(2, [&](int rank) {
    GroupOptions options;
    options.world = {.rank = rank,
                     .size = 2,
                     .local_rank = rank,
                     .local_size = 2,
                     .rendezvous = "file://" + directory.path()};
    const Tensor tensor = Tensor::Zeros(model::CpuDevice(), {numel}, model::DType::kF32);
    const Request request{.collective = collective,
                          .root = collective == Collective::kBroadcast ? 0 : -1,
                          .input = tensor,
                          .output = tensor};
    if (rank == 0) {
      options.timeout = std::chrono::seconds(2);
      const auto group = MakeGlooGroup(options, model::CpuDevice(), nullptr);
      const std::string error = ErrorOf<CollectiveError>([&] { group->Issue(request).Wait(); });
      has_ended = true;
      throw CollectiveError(error);
    }
    FirstCause first_cause(options.world);
    GlooMesh mesh(options.world, "", std::chrono::seconds(30), first_cause);
    HandMadePeer peer(mesh, tensor, BaseSlot(request));
    ErrorOf<PeerError>([&] { body(peer); });
    while (!has_ended) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    mesh.Abort();
  })[0];
}

constexpr char kTooLate[] = "rank 1 made no progress for 2.0 s";

// Over a slow link a long broadcast goes on as long as it moves: a peer may take twice the timeout for all.
TEST(GlooSlowLinkTest, EachSegmentOfABroadcastHasADeadline) {
  constexpr size_t kSegments = 8;
  constexpr size_t kSegmentBytes = 312'000;  // 10 Mbit/s bring eight of them within 2 s
  size_t num_taken = 0;
  const auto error = [&](size_t most, bool gives_receipts) {
    num_taken = 0;
    return ErrorWithPeer(Collective::kBroadcast, kSegments * kSegmentBytes / sizeof(float),
                         [&](HandMadePeer& peer) {
                           for (size_t i = 0; i < most; ++i) {
                             if (gives_receipts) std::this_thread::sleep_for(std::chrono::milliseconds(500));
                             peer.incoming.Expect(i * kSegmentBytes, i == kSegments ? 0 : kSegmentBytes);
                             peer.incoming.Wait();
                             ++num_taken;
                             if (gives_receipts && (i + 3 <= kSegments || i == kSegments))
                               peer.receipts.Send(0, 0);
                           }
                         });
  };
  constexpr size_t kAll = kSegments + 1;  // with the empty message at the end
  EXPECT_EQ(error(kAll, true), "no error");
  EXPECT_THAT(error(3, true), HasSubstr(kTooLate));
  EXPECT_THAT(error(kAll, false), HasSubstr(kTooLate));
  EXPECT_EQ(num_taken, 3U) << "more are sent when these have been taken";
}

// A vector that could be stuck in a connection that breaks has a receipt, a shorter one has none.
TEST(GlooSlowLinkTest, VectorsThatMayBeStuckHaveReceipts) {
  const auto error = [](int64_t numel) {
    return ErrorWithPeer(Collective::kAllReduce, numel, [&](HandMadePeer& peer) {
      const size_t bytes = static_cast<size_t>(numel) * sizeof(float);
      peer.incoming.Expect(0, bytes);
      peer.outgoing.Send(0, bytes);
      peer.incoming.Wait();
    });
  };
  EXPECT_EQ(error(1000), "no error");
  EXPECT_THAT(error(2000), HasSubstr(kTooLate));
}

}  // namespace
}  // namespace gradsync::comm
