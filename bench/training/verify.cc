#include "bench/training/verify.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "model/error.h"

namespace gradsync::bench {
namespace {

using model::DType;
using model::Parameter;
using model::Tensor;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Sums of squares over the elements of tensors.
struct Squares {
  double of_difference = 0;
  double of_expected = 0;
};

template <class T>
Squares SumSquares(const std::vector<T>& found, const std::vector<T>& expected) {
  Squares squares;
  for (size_t i = 0; i < found.size(); ++i) {
    const double e = static_cast<double>(expected[i]);
    const double d = static_cast<double>(found[i]) - e;
    squares.of_difference += d * d;
    squares.of_expected += e * e;
  }
  return squares;
}

Squares SumSquares(const Tensor& found, const Tensor& expected) {
  return DispatchFloat(found.dtype(), "verify",
                       [&]<class T>() { return SumSquares(found.ToVector<T>(), expected.ToVector<T>()); });
}

// The root of the mean square of all elements.
double RootMeanSquare(const std::vector<Tensor>& tensors) {
  double sum = 0;
  double numel = 0;
  for (const Tensor& tensor : tensors) {
    sum += SumSquares(tensor, tensor).of_expected;
    numel += static_cast<double>(tensor.numel());
  }
  return numel == 0 ? 0 : std::sqrt(sum / numel);
}

double RelativeError(const Squares& squares, int64_t numel, double root_mean_square) {
  constexpr double kSmallestShare = 1e-2;
  const double difference = std::sqrt(squares.of_difference);
  const double floor = kSmallestShare * root_mean_square * std::sqrt(static_cast<double>(numel));
  const double norm = std::max(std::sqrt(squares.of_expected), floor);
  if (!std::isfinite(difference) || !std::isfinite(norm)) return kInfinity;
  if (norm == 0) return difference == 0 ? 0 : kInfinity;
  return difference / norm;
}

// FNV-1a over the bytes eight at a time.
uint64_t HashBytes(const Tensor& tensor, uint64_t hash) {
  constexpr uint64_t kPrime = 1099511628211u;
  std::vector<std::byte> bytes((tensor.nbytes() + 7) / 8 * 8);
  tensor.CopyToHost(bytes.data());
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, &bytes[i], sizeof(word));
    hash = std::rotl((hash ^ word) * kPrime, 29);
  }
  return hash;
}

// Small numbers that ranks agree on, in one collective each.
class Numbers {
 public:
  Numbers(comm::ProcessGroup& group, model::DevicePtr device) : group_(group), device_(std::move(device)) {}

  std::vector<double> Reduce(const std::vector<double>& mine, comm::ReduceOp op) {
    const Tensor tensor = Tensor::From<double>(device_, {static_cast<int64_t>(mine.size())}, mine);
    group_.AllReduce(tensor, op).Wait();
    return tensor.ToVector<double>();
  }

 private:
  comm::ProcessGroup& group_;
  const model::DevicePtr device_;
};

struct Worst {
  double error = 0;
  size_t index = 0;

  void Take(double candidate, size_t i) {
    if (candidate > error) *this = {candidate, i};
  }
};

// The largest error of all ranks, and the first tensor that has it.
Worst WorstOfRanks(const Worst& mine, Numbers& numbers) {
  const double error = numbers.Reduce({mine.error}, comm::ReduceOp::kMax).front();
  const double index = mine.error == error ? static_cast<double>(mine.index) : kInfinity;
  return {error, static_cast<size_t>(numbers.Reduce({index}, comm::ReduceOp::kMin).front())};
}

bool SameOnAllRanks(std::span<Parameter* const> params, Numbers& numbers) {
  uint64_t hash = 0;
  for (Parameter* const param : params) hash = HashBytes(param->value(), HashBytes(param->grad(), hash));
  const double number = static_cast<double>(hash >> 12);  // so many bits a double holds exactly
  return numbers.Reduce({number}, comm::ReduceOp::kMin) == numbers.Reduce({number}, comm::ReduceOp::kMax);
}

}  // namespace

Reference CopyState(std::span<Parameter* const> params) {
  Reference state;
  if (params.empty()) return state;
  const model::DevicePtr device = params.front()->value().device();
  const model::DevicePtr keeper = device->is_cpu() ? device : model::CpuDevice();
  for (Parameter* const param : params) {
    state.grads.push_back(param->grad().To(keeper));
    state.values.push_back(param->value().To(keeper));
  }
  return state;
}

Verdict Verify(std::span<Parameter* const> params, const Reference& reference, comm::ProcessGroup& group) {
  Require(!params.empty(), "verify: there is no parameter");
  const Tensor& first = params.front()->value();
  Numbers numbers(group, first.device());
  int64_t largest = 0;
  for (Parameter* const param : params) largest = std::max(largest, param->numel());
  const Tensor scratch = Tensor::Empty(first.device(), {largest}, first.dtype());

  // Only rank 0 has more than zero to say.
  const std::vector<double> root_mean_squares = numbers.Reduce(
      {RootMeanSquare(reference.grads), RootMeanSquare(reference.values)}, comm::ReduceOp::kMax);
  // The error of `found` against rank 0's `expected[i]`.
  const auto error_of = [&](const Tensor& found, const std::vector<Tensor>& expected, size_t i,
                            double scale) {
    const Tensor place = scratch.Slice(0, found.shape());
    if (group.rank() == 0) place.CopyFrom(expected[i]);
    group.Broadcast(place, 0).Wait();
    return RelativeError(SumSquares(found, place), found.numel(), scale);
  };
  Worst grad;
  Worst value;
  for (size_t i = 0; i < params.size(); ++i) {
    grad.Take(error_of(params[i]->grad(), reference.grads, i, root_mean_squares[0]), i);
    value.Take(error_of(params[i]->value(), reference.values, i, root_mean_squares[1]), i);
  }
  grad = WorstOfRanks(grad, numbers);
  value = WorstOfRanks(value, numbers);
  return {grad.error, value.error, params[grad.index]->name(), params[value.index]->name(),
          SameOnAllRanks(params, numbers)};
}

double Tolerance(DType dtype, int64_t positions) {
  if (dtype == DType::kBF16) return 16 * 0x1p-8;
  constexpr double kFactor = 512;
  const double unit_roundoff = dtype == DType::kF64 ? 0x1p-53 : 0x1p-24;
  return kFactor * unit_roundoff * std::sqrt(static_cast<double>(positions));
}

double Tf32Tolerance(int64_t positions) {
  constexpr double kRoundings = 64;
  return std::max(Tolerance(DType::kF32, positions), kRoundings * std::ldexp(1.0, -11));
}

}  // namespace gradsync::bench
