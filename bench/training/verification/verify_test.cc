#include "bench/training/verification/verify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "bench/testing/unreachable_device.h"
#include "comm/testing/local_process_group.h"
#include "comm/testing/rank_threads.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::bench {
namespace {

using model::DType;
using model::Parameter;
using model::Tensor;

constexpr double kTolerance = 1e-4;

// Two parameters with known values and gradients.
struct Replica {
  explicit Replica(model::DevicePtr on = model::CpuDevice()) : device(std::move(on)) {
    for (const char* name : {"small", "large"}) {
      const std::vector<float> values = {1, 2, 2, 4};
      const int64_t n = std::string(name) == "small" ? 2 : 4;
      const Tensor value = Tensor::From<float>(device, {n}, std::span(values).first(static_cast<size_t>(n)));
      owned.push_back(std::make_unique<Parameter>(name, value));
      owned.back()->PlaceGrad(value.Clone());
      owned.back()->MarkGrad();
      params.push_back(owned.back().get());
    }
  }

  const model::DevicePtr device;
  std::vector<std::unique_ptr<Parameter>> owned;
  std::vector<Parameter*> params;
};

// What an optimizer makes of such gradients: the values that replicas begin with.
std::function<void()> StepAgain(Replica& replica) {
  return [&replica] {
    const Replica unspoilt;
    for (size_t i = 0; i < replica.params.size(); ++i) {
      replica.params[i]->MutableValue().CopyFrom(unspoilt.params[i]->value());
    }
  };
}

// The agreement on two ranks whose replicas `spoil` has been at; the reference is unspoilt.
std::vector<Agreement> AgreementsAfter(const std::function<void(Replica&, int rank)>& spoil) {
  const auto groups = comm::MakeLocalGroups(2);
  std::vector<Agreement> agreements(2);
  comm::RunRanks(2, [&](int rank) {
    Replica replica;
    const std::vector<Tensor> reference = CopyGrads(replica.params);
    spoil(replica, rank);
    const size_t index = static_cast<size_t>(rank);
    agreements[index] = Verify(replica.params, reference, StepAgain(replica), kTolerance, *groups[index]);
  });
  return agreements;
}

TEST(VerifyTest, EqualStateHasNoError) {
  for (const Agreement& agreement : AgreementsAfter([](Replica&, int) {})) {
    EXPECT_EQ(agreement.grad_rel_error, 0);
    EXPECT_EQ(agreement.param_rel_error, 0);
    EXPECT_TRUE(agreement.replicas_equal);
  }
}

TEST(VerifyTest, AllRanksLearnOfOneRanksWrongGradient) {
  const auto agreements = AgreementsAfter([](Replica& replica, int rank) {
    if (rank == 1) model::Scale(replica.params[1]->grad(), 1.5);
  });
  for (const Agreement& agreement : agreements) {
    EXPECT_DOUBLE_EQ(agreement.grad_rel_error, 0.5);
    EXPECT_EQ(agreement.worst_grad, "large");
    EXPECT_EQ(agreement.param_rel_error, 0);
    EXPECT_FALSE(agreement.replicas_equal);
  }
}

TEST(VerifyTest, EqualReplicasCanAllBeWrong) {
  for (const Agreement& agreement :
       AgreementsAfter([](Replica&replica, int) { replica.params[0]->MutableValue().Zero(); })) {
    EXPECT_EQ(agreement.param_rel_error, 1);
    EXPECT_EQ(agreement.worst_param, "small");
    EXPECT_TRUE(agreement.replicas_equal);
  }
}

TEST(VerifyTest, RoundingOfAVanishingGradientIsNoError) {
  // "small" is zero in the reference. The mean square of all six elements is 25 / 6.
  const auto groups = comm::MakeLocalGroups(1);
  Replica replica;
  replica.params[0]->grad().Zero();
  const std::vector<Tensor> reference = CopyGrads(replica.params);
  replica.params[0]->grad().data<float>()[1] = 1e-7f;
  const Agreement agreement = Verify(replica.params, reference, StepAgain(replica), kTolerance, *groups[0]);
  EXPECT_NEAR(agreement.grad_rel_error, 1e-7 / (0.01 * std::sqrt(2 * 25 / 6.0)), 1e-9);
  replica.params[0]->grad().data<float>()[1] = 1;
  EXPECT_GT(Verify(replica.params, reference, StepAgain(replica), kTolerance, *groups[0]).grad_rel_error, 1);
}

TEST(VerifyTest, NotANumberIsInfinitelyWrong) {
  const auto agreements = AgreementsAfter([](Replica& replica, int rank) {
    if (rank == 1) replica.params[0]->grad().data<float>()[1] = NAN;
  });
  for (const Agreement& agreement : agreements) EXPECT_TRUE(std::isinf(agreement.grad_rel_error));
}

// With tensors that the host cannot touch, as on a GPU.
TEST(VerifyTest, ComparesWhatIsOnAnotherDevice) {
  Replica replica(UnreachableDevice());
  const auto group = LoneGroup();
  const std::vector<Tensor> reference = CopyGrads(replica.params);
  EXPECT_TRUE(reference.front().device()->is_cpu());
  const Agreement equal = Verify(replica.params, reference, StepAgain(replica), kTolerance, *group);
  EXPECT_EQ(equal.grad_rel_error, 0);
  EXPECT_EQ(equal.param_rel_error, 0);
  EXPECT_TRUE(equal.replicas_equal);
  replica.params[1]->grad().Zero();
  const Agreement wrong = Verify(replica.params, reference, StepAgain(replica), kTolerance, *group);
  EXPECT_EQ(wrong.grad_rel_error, 1);
  EXPECT_EQ(wrong.worst_grad, "large");
}

TEST(RanksThatDifferTest, NamesThoseThatDifferFromMost) {
  const auto groups = comm::MakeLocalGroups(4);
  std::vector<std::vector<int>> found(4);
  comm::RunRanks(4, [&](int rank) {
    Replica replica;
    const auto r = static_cast<size_t>(rank);
    EXPECT_TRUE(EqualOnAllRanks(GradsOf(replica.params), *groups[r], replica.device));
    if (rank == 2) replica.params[1]->grad().data<float>()[3] += 0x1p-20f;
    found[r] = RanksThatDiffer(GradsOf(replica.params), *groups[r], replica.device);
    EXPECT_TRUE(EqualOnAllRanks(ValuesOf(replica.params), *groups[r], replica.device));
  });
  for (const std::vector<int>& ranks : found) EXPECT_EQ(ranks, std::vector<int>{2});
}

// Also of the last, which do not fill a word.
TEST(RanksThatDifferTest, EveryElementCounts) {
  const auto groups = comm::MakeLocalGroups(2);
  comm::RunRanks(2, [&](int rank) {
    const model::DevicePtr device = model::CpuDevice();
    const auto differs = [&](int64_t i) {
      const Tensor tensor = Tensor::Zeros(device, {5}, DType::kF32);
      if (rank == 1) tensor.data<float>()[i] = 1;
      return !EqualOnAllRanks({&tensor, 1}, *groups[static_cast<size_t>(rank)], device);
    };
    for (int64_t i = 0; i < 5; ++i) EXPECT_TRUE(differs(i)) << i;
  });
}

Agreement GoodAgreement() { return {1e-7, 2e-7, "a.weight", "b.weight", true, kTolerance}; }

TEST(FaultTest, ThereIsNoneWithinTheTolerance) {
  EXPECT_TRUE(GoodAgreement().passed());
  EXPECT_EQ(DescribeFault("core", GoodAgreement()), "");
}

TEST(FaultTest, NamesVariantTensorAndError) {
  Agreement agreement = GoodAgreement();
  agreement.param_rel_error = 0.25;
  EXPECT_EQ(DescribeFault("core", agreement),
            "core: b.weight differs from what the optimizer makes of its gradient by a relative error of "
            "0.25, expected at most 0.0001");
  agreement.grad_rel_error = std::numeric_limits<double>::infinity();
  EXPECT_EQ(DescribeFault("core", agreement),
            "core: the gradient of a.weight differs from a single process's by a relative error of inf, "
            "expected at most 0.0001");
}

TEST(FaultTest, ReplicasMustBeBitwiseEqual) {
  Agreement agreement = GoodAgreement();
  agreement.replicas_equal = false;
  EXPECT_EQ(DescribeFault("flat", agreement),
            "flat: gradients or parameters are not bitwise equal on all ranks");
}

TEST(ToleranceTest, GrowsWithTheRootOfTheSumAndIsFarBelowAnyMistake) {
  EXPECT_DOUBLE_EQ(Tolerance(DType::kF32, 8), 2 * Tolerance(DType::kF32, 2));
  EXPECT_EQ(Tolerance(DType::kBF16, 8), Tolerance(DType::kF32, 8));
  EXPECT_LT(Tolerance(DType::kF32, 512), 0.001);
  EXPECT_LT(Tolerance(DType::kF64, 512), 1e-11);
}

TEST(ToleranceTest, OfPeersIsFarBelowAnyMistake) {
  EXPECT_DOUBLE_EQ(PeerTolerance(DType::kF32, 400), 2 * PeerTolerance(DType::kF32, 100));
  EXPECT_LT(PeerTolerance(DType::kF32, 4 * 512 * 8), 0.01);
  EXPECT_LT(PeerTolerance(DType::kBF16, 4 * 512 * 8), 0.1);
  EXPECT_DOUBLE_EQ(Tf32PeerTolerance(1024), 64.0 / 2048);
  EXPECT_LT(Tf32PeerTolerance(4 * 512 * 8), 0.05);
}

}  // namespace
}  // namespace gradsync::bench
