// Muon that iterates in bf16 against PyTorch's: tests/fixtures/make_muon_fixture.py made the file and says
// what is in it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/files/safetensors.h"
#include "model/optimizer.h"
#include "tests/parity.h"

namespace gradsync::model {
namespace {

// The relative error of what three steps change.
double ErrorOf(const std::string& name, bool in_bf16) {
  const SafetensorsFile file = SafetensorsFile::Open("tests/fixtures/muon.safetensors");
  const auto load = [&](const std::string& what) { return file.Load(what + "/" + name, CpuDevice()); };
  Parameter p(name, load("before"));
  const std::vector<double> before = ToDoubles(p.value()), after = ToDoubles(load("after"));
  const std::vector<Parameter*> list{&p};
  Muon muon(list, {.adamw = {.learning_rate = 0.02, .weight_decay = 0.1}, .in_bf16 = in_bf16});
  for (int step = 0; step < 3; ++step) {
    p.grad().CopyFrom(load("grad/" + std::to_string(step)));
    p.MarkGrad();
    muon.Step();
  }
  const auto change = [&](const std::vector<double>& to) {
    std::vector<double> difference;
    for (size_t i = 0; i < to.size(); ++i) difference.push_back(to[i] - before[i]);
    return difference;
  };
  return RelativeError(change(ToDoubles(p.value())), change(after));
}

// bf16 rounds factors by u = 2^-9, PyTorch's and gradsync's in different places: five iterations of three
// products make that some u more. Where singular values are small (square) they make it more again. PyTorch's
// error shows against f32; one that is alike and independent makes a difference of 1.4 of it.
TEST(MuonParityTest, FollowsPyTorch) {
  for (const char* const name : {"wide", "tall", "square"}) {
    const double of_pytorch = ErrorOf(name, false);
    EXPECT_LT(of_pytorch, std::string(name) == "square" ? 6e-2 : 3e-2) << name;
    EXPECT_LT(ErrorOf(name, true), 2 * of_pytorch) << name;
  }
}

}  // namespace
}  // namespace gradsync::model
