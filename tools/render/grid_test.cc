#include "tools/render/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/records/record.h"
#include "tools/tables/test_tables.h"

namespace gradsync::tools {
namespace {

using ::testing::ElementsAre;

// With buckets of so many bytes.
Change Buckets(int64_t bytes) {
  return [bytes](bench::Record& record) { record.facts.Set("bucket_bytes", bytes); };
}

std::vector<std::string> HeadsOf(const std::vector<Group>& groups) {
  const Tabled t(groups);
  return GridOf(ChoicesOf(t.cells), 1).rows[0];
}

TEST(GridTest, BaselinesOverOneBackendAreTold) {
  const Measurement small = Steady("core:bucket_bytes=1Mi", Wobble(100, 24, 1), Buckets(1 << 20)),
                    large = Steady("core:bucket_bytes=4Mi", Wobble(110, 24, 2), Buckets(4 << 20)),
                    in_shm = Steady("core:bucket_bytes=4Mi@shm", Wobble(90, 24, 3), Buckets(4 << 20));
  EXPECT_THAT(HeadsOf({{small, large, in_shm}}), ElementsAre("", "gloo, 1MiB", "gloo, 4MiB", "shm"));
  EXPECT_THAT(HeadsOf({{small, in_shm}}), ElementsAre("", "gloo", "shm"));
}

TEST(GridTest, BaselinesOfTwoCellsNeedNoMoreThanTheirBackend) {
  EXPECT_THAT(HeadsOf({{AtPlace("core", 1, 64, 1), AtPlace("naive", 1, 64, 2)},
                       {AtPlace("core", 2, 64, 1), AtPlace("naive", 2, 64, 2)}}),
              ElementsAre("", "gloo", "gloo"));
}

}  // namespace
}  // namespace gradsync::tools
