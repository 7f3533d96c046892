// Muon over ranks whose gradients are real numbers, against one process in f64 in other words
// (model/test_muon.h). Gradients do not depend on weights, so that errors of steps add up and no more.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <eigen3/Eigen/Core>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "comm/testing/rank_threads.h"
#include "ddp/equivalence_suite.h"
#include "model/tensor/random.h"
#include "model/test_muon.h"

namespace gradsync::ddp {
namespace {

using model::Parameter;
using model::Tensor;
using Matrix = model::ReferenceMatrix;
using Matrices = std::vector<Matrix>;

const std::vector<model::Shape> kShapes = {{24, 40}, {40, 24}, {24, 24}, {16, 48}, {24, 24}};
constexpr int kSteps = 3, kPasses = 2;
constexpr double kLearningRate = 0.05, kDecay = 0.01, kClipNorm = 5;

// What others have done wrong.
enum class Fault {
  kNone,
  kUpdatePerPass,  // github.com/deepspeedai/DeepSpeed/issues/8443: an iteration for each micro-batch
  kClipBeforeSum,  // nanochat, dev/LOG.md: each rank clips its own gradients
};

// A rank's gradients of a pass; those of later ranks and steps are larger, so that it matters which are
// scaled.
Matrix GradientOf(int rank, int step, int pass, size_t p) {
  const Tensor t = Tensor::Empty(model::CpuDevice(), kShapes[p], model::DType::kF32);
  FillTruncatedNormal(t, (1 + rank) * (1 + 2 * (step % 9)), static_cast<uint64_t>(step * kPasses + pass),
                      static_cast<uint64_t>(rank) * kShapes.size() + p);
  using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<const Floats>(t.data<float>(), kShapes[p][0], kShapes[p][1]).cast<double>();
}

double Norm(const Matrices& all) {
  double sum = 0;
  for (const Matrix& m : all) sum += m.squaredNorm();
  return std::sqrt(sum);
}

// The gradient that one process has of the whole batch, and the largest sum of its terms' norms over its own.
std::pair<Matrices, double> WholeGradient(int world_size, int step) {
  Matrices whole;
  double cancels = 1;
  for (size_t p = 0; p < kShapes.size(); ++p) {
    Matrix sum = Matrix::Zero(kShapes[p][0], kShapes[p][1]);
    double norms = 0;
    for (int i = 0; i < world_size * kPasses; ++i) {
      const Matrix term = GradientOf(i / kPasses, step, i % kPasses, p);
      sum += term;
      norms += term.norm();
    }
    cancels = std::max(cancels, norms / sum.norm());
    whole.push_back(sum / (world_size * kPasses));
  }
  return {whole, cancels};
}

Matrix StartOf(size_t p) { return GradientOf(0, 9, 0, p); }

struct Expected {
  Matrices values, means;
  double cancels = 1;
};

Expected SingleProcessInF64(int world_size, bool clips) {
  std::vector<model::MuonReference> rules(kShapes.size(), {.rate = kLearningRate, .decay = kDecay});
  Expected expected;
  for (size_t p = 0; p < kShapes.size(); ++p) expected.values.push_back(StartOf(p));
  for (int step = 0; step < kSteps; ++step) {
    const auto [grads, cancels] = WholeGradient(world_size, step);
    const double scale = clips ? std::min(1.0, kClipNorm / Norm(grads)) : 1;
    for (size_t p = 0; p < kShapes.size(); ++p)
      expected.values[p] = rules[p].Next(expected.values[p], scale * grads[p]);
    expected.cancels = std::max(expected.cancels, cancels);
  }
  for (const model::MuonReference& rule : rules) expected.means.push_back(rule.mean);
  return expected;
}

class Rank {
 public:
  explicit Rank(bool in_bf16) {
    const auto copy = in_bf16 ? Parameter::Copy::kBF16 : Parameter::Copy::kNone;
    for (size_t p = 0; p < kShapes.size(); ++p) {
      owned_.push_back(std::make_unique<Parameter>("p" + std::to_string(p), ToTensor(StartOf(p)), copy));
      params_.push_back(owned_.back().get());
    }
    optimizer_ = std::make_unique<model::Muon>(
        params_, model::Muon::Options{.adamw = {.learning_rate = kLearningRate, .weight_decay = kDecay},
                                      .in_bf16 = in_bf16});
  }

  void Train(const Tested& tested, comm::ProcessGroup& group, bool clips, Fault fault) {
    StrategyContext context = {
        .params = params_, .group = group, .options = {}, .optimizer = optimizer_.get()};
    context.options.bucket_bytes = 10'000;
    context.options.values = tested.values;
    const std::unique_ptr<Strategy> strategy = MakeStrategy(tested.strategy, context);
    const int num_updates = fault == Fault::kUpdatePerPass ? kPasses : 1;
    for (int step = 0; step < kSteps; ++step) {
      for (int update = 0; update < num_updates; ++update) {
        for (Parameter* p : params_) p->ResetGrad();
        strategy->BeginStep();
        for (int pass = update; pass < (num_updates > 1 ? update + 1 : kPasses); ++pass) {
          double scale = strategy->loss_scale() * num_updates / kPasses;
          if (fault == Fault::kClipBeforeSum)
            scale *= std::min(1.0, kClipNorm / Norm(OwnGradient(group, step)));
          const bool is_last = num_updates > 1 || pass + 1 == kPasses;
          model::Backward(LossOf(group.rank(), step, pass, scale), params_, [&](Parameter& p) {
            if (is_last) strategy->OnGradReady(p);
          });
        }
        strategy->Finish();
        double scale = 1;
        if (clips) scale = std::min(1.0, kClipNorm / std::sqrt(strategy->SquaredNorm(params_)));
        strategy->Update(*optimizer_, scale);
      }
    }
    for (const model::NamedTensor& state : strategy->State()) states_.push_back(state);
    if (states_.empty()) states_ = optimizer_->State();
    strategy->CompleteValues();
  }

  Matrix Value(size_t p) const { return ToMatrix(params_[p]->value(), p); }
  // Undefined on a rank that does not own it.
  Matrix MeanOf(size_t p) const {
    for (const auto& [name, state] : states_)
      if (name == "exp_avg.p" + std::to_string(p)) return ToMatrix(state, p);
    return {};
  }

 private:
  Tensor ToTensor(const Matrix& m) const {
    const Eigen::Matrix<float, -1, -1, Eigen::RowMajor> floats = m.cast<float>();
    return Tensor::From<float>(device_, {m.rows(), m.cols()},
                               std::span(floats.data(), floats.data() + floats.size()));
  }
  static Matrix ToMatrix(const Tensor& t, size_t p) {
    const std::vector<float> v = t.ToVector<float>();
    return Eigen::Map<const Eigen::Matrix<float, -1, -1, Eigen::RowMajor>>(v.data(), kShapes[p][0],
                                                                           kShapes[p][1])
        .cast<double>();
  }
  static Matrices OwnGradient(const comm::ProcessGroup& group, int step) {
    Matrices own;
    for (size_t p = 0; p < kShapes.size(); ++p) {
      own.push_back(Matrix::Zero(kShapes[p][0], kShapes[p][1]));
      for (int pass = 0; pass < kPasses; ++pass) own[p] += GradientOf(group.rank(), step, pass, p) / kPasses;
    }
    return own;
  }
  model::Var LossOf(int rank, int step, int pass, double scale) {
    model::Var loss(Tensor::Zeros(device_, {1}, model::DType::kF32));
    for (size_t p = 0; p < params_.size(); ++p) {
      loss = model::Var::FromOp("data", loss.value(), {loss, *params_[p]}, [=, this](model::OpGradient& op) {
        op.Contribute(1, [&](const model::Destination<Tensor>& grad) {
          Store(ToTensor(scale * GradientOf(rank, step, pass, p)), grad);
        });
        op.PassThrough(0);
      });
    }
    return loss;
  }

  const model::DevicePtr device_ = model::CpuDevice();
  std::vector<std::unique_ptr<Parameter>> owned_;
  std::vector<Parameter*> params_;
  std::unique_ptr<model::Optimizer> optimizer_;
  std::vector<model::NamedTensor> states_;
};

// All ranks' values and means, which must be equal where several ranks have them.
std::vector<std::unique_ptr<Rank>> Train(const Tested& tested, int world_size, bool clips,
                                         bool in_bf16 = false, Fault fault = Fault::kNone) {
  const auto groups = comm::MakeGroups("shm", world_size);
  std::vector<std::unique_ptr<Rank>> ranks(groups.size());
  comm::RunRanks(world_size, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    ranks[r] = std::make_unique<Rank>(in_bf16);
    ranks[r]->Train(tested, *groups[r], clips, fault);
  });
  return ranks;
}

// The largest error of a value, relative to the length of one update whose singular values are all one.
double ValueError(const std::vector<std::unique_ptr<Rank>>& ranks, const Expected& expected) {
  double largest = 0;
  for (const auto& rank : ranks) {
    for (size_t p = 0; p < kShapes.size(); ++p) {
      const model::MuonReference rule{.rate = kLearningRate, .decay = kDecay};
      const double size = rule.SizeOf(expected.values[p]);
      largest = std::max(largest, (rank->Value(p) - expected.values[p]).norm() / size);
    }
  }
  return largest;
}

// The sum's rounding: n terms in n - 1 additions and two scales, each relative to all terms' norms.
double SumRounding(int world_size, const Expected& expected) {
  return (world_size * kPasses + 2) * 0x1p-24 * expected.cancels;
}

// What is rounded, in the sum or in a product of an iteration, the iterations enlarge by at most 3.4445^5 =
// 485, where a singular value is small. A product rounds by less than 16 u of the norm, as elements do not
// round alike.
double Bound(int world_size, const Expected& expected) {
  return kSteps * 485 * (SumRounding(world_size, expected) + 16 * 0x1p-24);
}

using Case = std::tuple<Tested, int, bool>;  // strategy, world size, clips

class MuonTest : public testing::TestWithParam<Case> {};

TEST_P(MuonTest, EqualsOneProcessInF64) {
  const auto& [tested, world_size, clips] = GetParam();
  if (clips && !tested.traits().can_clip) GTEST_SKIP();
  const Expected expected = SingleProcessInF64(world_size, clips);
  const auto ranks = Train(tested, world_size, clips);
  const double bound = Bound(world_size, expected);
  EXPECT_LE(ValueError(ranks, expected), bound);
  EXPECT_LT(bound, 1e-2);  // or it would tell nothing
  EXPECT_GT(ValueError(ranks, SingleProcessInF64(world_size, !clips)), bound);
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  const auto& [tested, world_size, clips] = info.param;
  return Join(tested.name(), "_", world_size, clips ? "_clipped" : "");
}

INSTANTIATE_TEST_SUITE_P(AllStrategies, MuonTest,
                         testing::Combine(testing::ValuesIn(StrategiesOfMatrices()),
                                          testing::Values(1, 2, 3, 5), testing::Values(false, true)),
                         CaseName);

class OwnedMuonTest : public testing::TestWithParam<Tested> {};

// The test that others lacked.
TEST_P(OwnedMuonTest, FaultsOfOthersAreFound) {
  for (const int world_size : {2, 3}) {
    const Expected expected = SingleProcessInF64(world_size, true);
    const double bound = Bound(world_size, expected);
    EXPECT_GT(ValueError(Train(GetParam(), world_size, true, false, Fault::kUpdatePerPass), expected),
              10 * bound);
    EXPECT_GT(ValueError(Train(GetParam(), world_size, false, false, Fault::kClipBeforeSum), expected),
              10 * bound);
  }
}

// In bf16 the input of the iteration differs by the rounding of the sum alone; the output of one whose
// factors are rounded by 2^-9 differs by a few per cent.
TEST_P(OwnedMuonTest, InBf16TheInputIsEqualAndTheOutputNear) {
  for (const int world_size : {1, 2, 3, 5}) {
    const Expected expected = SingleProcessInF64(world_size, true);
    const auto alone = Train({"core"}, world_size, true, /*in_bf16=*/true);
    const auto ranks = Train(GetParam(), world_size, true, /*in_bf16=*/true);
    for (size_t p = 0; p < kShapes.size(); ++p) {
      size_t num_owners = 0;
      for (const auto& rank : ranks) {
        const Matrix mean = rank->MeanOf(p);
        num_owners += mean.size() > 0;
        if (mean.size() > 0) {
          EXPECT_LE((mean - expected.means[p]).norm(),
                    (SumRounding(world_size, expected) + 8 * 0x1p-24) * expected.means[p].norm());
        }
        const Matrix start = StartOf(p), update = alone.front()->Value(p) - start;
        EXPECT_LE((rank->Value(p) - alone.front()->Value(p)).norm(), 3e-2 * update.norm());
        EXPECT_EQ(rank->Value(p), ranks.front()->Value(p));
      }
      EXPECT_EQ(num_owners, 1u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gathers, OwnedMuonTest,
                         testing::Values(Tested{"owned"}, Tested{"owned", {{"gather", 1}}}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace gradsync::ddp
