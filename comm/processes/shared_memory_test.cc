#include "comm/processes/shared_memory.h"

#include <gtest/gtest.h>

namespace gradsync::comm {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(SharedMemoryTest, NoTwoPartsLieAMultipleOf256MiBApart) {
  for (const size_t num_mib :
       {2, 3, 4, 16, 32, 64, 127, 128, 255, 256, 257, 510, 512, 768, 1022, 1024, 4096}) {
    for (const size_t bytes : {num_mib * kMiB, num_mib * kMiB + 4096}) {
      const size_t part_bytes = SharedMemory::PartBytes(bytes);
      EXPECT_GE(part_bytes, bytes);
      EXPECT_LT(part_bytes, bytes + 4 * kMiB);
      EXPECT_EQ(part_bytes % (2 * kMiB), 0) << "huge pages";
      for (size_t distance = 1; distance < 128; ++distance)
        EXPECT_NE(distance * part_bytes % (256 * kMiB), 0) << distance << " parts of " << bytes << " bytes";
    }
  }
}

TEST(SharedMemoryTest, PartsFollowEachOtherAsFarApartAsTheyTakeOfTheFile) {
  for (const size_t bytes : {size_t{1}, size_t{4097}, 2 * kMiB, 3 * kMiB}) {
    const size_t part_bytes = SharedMemory::PartBytes(bytes);
    const SharedMemory memory(MakeMemoryFile(3 * part_bytes), bytes, 3, 1);
    EXPECT_EQ(memory.part(1) - memory.part(0), static_cast<ptrdiff_t>(part_bytes));
    memory.part(2)[part_bytes - 1] = std::byte{1};
    EXPECT_EQ(memory.part(0)[0], std::byte{0});
  }
}

}  // namespace
}  // namespace gradsync::comm
