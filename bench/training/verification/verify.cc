#include "bench/training/verification/verify.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <string_view>

#include "bench/launch/over_ranks.h"
#include "model/base/error.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::bench {
namespace {

using model::DType;
using model::Parameter;
using model::Tensor;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Returns the tensor itself if the host can read it, because tensors may have gigabytes.
Tensor OnHost(const Tensor& tensor) {
  return tensor.device()->is_cpu() ? tensor : tensor.To(model::CpuDevice());
}

double SquaredDistance(const Tensor& a, const Tensor& b) {
  const Tensor from = OnHost(a), to = OnHost(b);
  return DispatchFloat(a.dtype(), "verify", [&]<class T>() {
    const T* const x = from.data<T>();
    return std::transform_reduce(x, x + from.numel(), to.data<T>(), 0.0, std::plus(), [](T own, T other) {
      const double difference = static_cast<double>(own) - static_cast<double>(other);
      return difference * difference;
    });
  });
}

double RootMeanSquare(std::span<const Tensor> tensors) {
  double sum = 0, numel = 0;
  for (const Tensor& tensor : tensors) {
    sum += model::SquaredNorm(OnHost(tensor));
    numel += static_cast<double>(tensor.numel());
  }
  return numel == 0 ? 0 : std::sqrt(sum / numel);
}

double RelativeError(const Tensor& found, const Tensor& expected, double root_mean_square) {
  constexpr double kSmallestShare = 1e-2;
  const double difference = std::sqrt(SquaredDistance(found, expected));
  const double floor = kSmallestShare * root_mean_square * std::sqrt(static_cast<double>(found.numel()));
  const double norm = std::max(std::sqrt(model::SquaredNorm(OnHost(expected))), floor);
  if (!std::isfinite(difference) || !std::isfinite(norm)) return kInfinity;
  if (norm == 0) return difference == 0 ? 0 : kInfinity;
  return difference / norm;
}

std::vector<Tensor> Copies(std::span<const Tensor> tensors) {
  std::vector<Tensor> copies;
  for (const Tensor& tensor : tensors) {
    copies.push_back(tensor.To(tensor.device()->is_cpu() ? tensor.device() : model::CpuDevice()));
  }
  return copies;
}

}  // namespace

void SetChecks(const Agreement& agreement, CheckFields& checks) {
  checks.Set("grad_rel_error", Value(agreement.grad_rel_error));
  checks.Set("param_rel_error", Value(agreement.param_rel_error));
  checks.Set("grads_equal", Value(agreement.grads_equal()));
  checks.Set("params_equal", Value(agreement.params_equal()));
  checks.Set("replicas_equal", Value(agreement.replicas_equal));
  checks.Set("tolerance", Value(agreement.tolerance));
  checks.Set("worst_grad", agreement.worst_grad);
  checks.Set("worst_param", agreement.worst_param);
}

std::string DescribeFault(const std::string& variant, const Agreement& agreement) {
  if (agreement.passed()) return "";
  const auto differs = [&](const std::string& what, const char* from, double error) {
    return Join(variant, ": ", what, " differs from ", from, " by a relative error of ", error,
                ", expected at most ", agreement.tolerance);
  };
  if (!agreement.grads_equal()) {
    return differs("the gradient of " + agreement.worst_grad, agreement.grad_source,
                   agreement.grad_rel_error);
  }
  if (!agreement.params_equal()) {
    return differs(agreement.worst_param, agreement.param_source, agreement.param_rel_error);
  }
  return variant + ": gradients or parameters are not bitwise equal on all ranks";
}

std::vector<Tensor> GradsOf(std::span<Parameter* const> params) {
  std::vector<Tensor> grads;
  for (Parameter* const param : params) grads.push_back(param->grad());
  return grads;
}

std::vector<Tensor> ValuesOf(std::span<Parameter* const> params) {
  std::vector<Tensor> values;
  for (const Parameter* const param : params) values.push_back(param->value());
  return values;
}

std::vector<int> RanksThatDiffer(std::span<const Tensor> tensors, comm::ProcessGroup& group,
                                 const model::DevicePtr& device) {
  uint64_t hash = 0;
  for (const Tensor& tensor : tensors) {
    const Tensor host = OnHost(tensor);
    const std::string_view bytes(static_cast<const char*>(host.raw_data()), host.nbytes());
    hash = 1099511628211u * hash + std::hash<std::string_view>()(bytes);
  }
  const std::vector<int64_t> numbers =
      GatherOverRanks(std::vector{static_cast<int64_t>(hash)}, group, device);
  const int64_t most = *std::ranges::max_element(
      numbers, {}, [&](int64_t candidate) { return std::ranges::count(numbers, candidate); });
  std::vector<int> ranks;
  for (size_t rank = 0; rank < numbers.size(); ++rank) {
    if (numbers[rank] != most) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

std::vector<Tensor> CopyGrads(std::span<Parameter* const> params) { return Copies(GradsOf(params)); }
std::vector<Tensor> CopyValues(std::span<Parameter* const> params) { return Copies(ValuesOf(params)); }

LargestError FindLargestError(std::span<const Tensor> found, std::span<const Tensor> expected,
                              comm::ProcessGroup& group, const model::DevicePtr& device) {
  const double scale = RootMeanSquare(expected);
  LargestError mine;
  for (size_t i = 0; i < found.size(); ++i) {
    const double error = RelativeError(found[i], expected[i], scale);
    if (error > mine.error) mine = {error, i};
  }
  const double error = ReduceOverRanks(mine.error, comm::ReduceOp::kMax, group, device);
  const double index = mine.error == error ? static_cast<double>(mine.index) : kInfinity;
  return {error, static_cast<size_t>(ReduceOverRanks(index, comm::ReduceOp::kMin, group, device))};
}

Agreement Verify(std::span<Parameter* const> params, std::span<const Tensor> reference,
                 const std::function<void()>& step_again, double tolerance, comm::ProcessGroup& group) {
  Require(!params.empty(), "verify: there is no parameter");
  const model::DevicePtr& device = params.front()->device();
  std::vector<Tensor> all = GradsOf(params);
  std::ranges::copy(ValuesOf(params), std::back_inserter(all));
  const bool replicas_equal = EqualOnAllRanks(all, group, device);
  const LargestError grad = FindLargestError(GradsOf(params), reference, group, device);
  const std::vector<Tensor> found = CopyValues(params);
  step_again();
  const LargestError value = FindLargestError(found, ValuesOf(params), group, device);
  return {grad.error,     value.error, params[grad.index]->name(), params[value.index]->name(),
          replicas_equal, tolerance};
}

double Tolerance(DType dtype, int64_t num_terms) {
  constexpr double kFactor = 512;
  const double unit_roundoff = dtype == DType::kF64 ? 0x1p-53 : 0x1p-24;
  return kFactor * unit_roundoff * std::sqrt(static_cast<double>(num_terms));
}

double PeerTolerance(DType dtype, int64_t positions) {
  return dtype == DType::kBF16 ? 16 * 0x1p-8 : Tolerance(dtype, positions);
}

double Tf32PeerTolerance(int64_t positions) {
  return std::max(PeerTolerance(DType::kF32, positions), 64 * 0x1p-11);
}

}  // namespace gradsync::bench
