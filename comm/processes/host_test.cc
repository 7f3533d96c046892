#include "comm/processes/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradsync::comm {
namespace {

// The kernel makes the first part up at each boot; the second is the number of the network namespace.
TEST(HostTest, IdentityIsOfThisBootAndNetwork) {
  EXPECT_THAT(HostIdentity(), testing::MatchesRegex("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/[0-9]+"));
}

}  // namespace
}  // namespace gradsync::comm
