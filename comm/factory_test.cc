#include "comm/factory.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "model/error.h"

namespace gradsync::comm {
namespace {

TEST(FactoryTest, MakesWhatItNames) {
  for (const std::string& name : BackendNames()) {
    const auto group =
        MakeProcessGroup({.backend = name, .world = {}, .interface_or_address = {}}, model::CpuDevice());
    EXPECT_EQ(group->backend(), name);
    EXPECT_EQ(group->size(), 1);
    EXPECT_EQ(group->num_threads(), 2);
    group->Barrier();
  }
}

std::string ErrorOf(const std::string& backend) {
  try {
    MakeProcessGroup({.backend = backend, .world = {}, .interface_or_address = {}}, model::CpuDevice());
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

TEST(FactoryTest, NamesTheBackendsItKnows) {
  EXPECT_EQ(ErrorOf("mpi"), "backend is 'mpi', expected one of: gloo");
}

TEST(FactoryTest, NamesTheVariableOfTheCheck) {
  setenv("GRADSYNC_CHECK_COLLECTIVES", "yes", 1);
  EXPECT_EQ(ErrorOf("gloo"), "GRADSYNC_CHECK_COLLECTIVES is 'yes', expected 0 or 1");
  unsetenv("GRADSYNC_CHECK_COLLECTIVES");
}

}  // namespace
}  // namespace gradsync::comm
