#include "ddp/lossy/reference.h"

#include <algorithm>
#include <cmath>
#include <eigen3/Eigen/Core>
#include <map>
#include <numeric>
#include <utility>

#include "model/tensor/random.h"

namespace gradsync::ddp {
namespace {

using Vector = Reference::Vector;

// Rounds to the eight significant bits of bf16, ties to even.
double Rounded(double x) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, 8)), exponent - 8);
}

Vector Mean(std::span<const Vector> of_ranks) {
  Vector mean = of_ranks[0];
  for (size_t i = 0; i < mean.size(); ++i) {
    double sum = 0;
    for (const Vector& values : of_ranks) sum += values[i];
    mean[i] = sum / static_cast<double>(of_ranks.size());
  }
  return mean;
}

class MeanOf : public Reference {
 public:
  explicit MeanOf(bool rounds) : rounds_(rounds) {}

  Vector Next(size_t /*p*/, std::span<const Vector> of_ranks) override {
    std::vector<Vector> sent(of_ranks.begin(), of_ranks.end());
    for (Vector& values : sent) Round(values);
    Vector mean = Mean(sent);
    Round(mean);
    return mean;
  }

 private:
  void Round(Vector& values) const {
    for (double& x : values) x = rounds_ ? Rounded(x) : x;
  }

  const bool rounds_;
};

class PowerSgd : public Reference {
 public:
  PowerSgd(std::span<const model::Shape> shapes, double rank, double min_compression)
      : rank_(static_cast<int64_t>(rank)),
        min_compression_(min_compression),
        shapes_(shapes.begin(), shapes.end()) {}

  Vector Next(size_t i, std::span<const Vector> of_ranks) override {
    const auto numel = static_cast<int64_t>(of_ranks[0].size());
    const int64_t rows = shapes_[i].empty() || numel == 0 ? 1 : shapes_[i][0];
    const int64_t columns = numel / rows;
    const auto sent = static_cast<double>(rank_ * (rows + columns));
    if (static_cast<double>(numel) / sent <= min_compression_) return Mean(of_ranks);
    const auto [kept, is_first] = kept_.try_emplace(i);
    auto& [q, errors] = kept->second;
    if (is_first) {
      q = Start(i, columns);
      errors.assign(of_ranks.size(), Matrix::Zero(rows, columns));
    }
    // M of a rank is its gradient plus its error. The mean of all M q equals the mean of all M, multiplied by
    // q.
    Matrix mean = Matrix::Zero(rows, columns);
    for (size_t r = 0; r < errors.size(); ++r) {
      errors[r] += Eigen::Map<const Matrix>(of_ranks[r].data(), rows, columns);
      mean += errors[r] / static_cast<double>(errors.size());
    }
    const Matrix p = Orthonormal(mean * q);
    q = mean.transpose() * p;
    const Matrix product = p * q.transpose();
    for (Matrix& error : errors) error -= product;
    return {product.data(), product.data() + numel};
  }

 private:
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  struct Kept {
    Matrix q;
    std::vector<Matrix> errors;  // by rank
  };

  Matrix Start(size_t i, int64_t columns) const {
    const auto start = model::Tensor::Empty(model::CpuDevice(), {rank_, columns}, model::DType::kF64);
    model::FillTruncatedNormal(start, 1, 0, model::StreamOf(model::Purpose::kLowRank, i));
    return Eigen::Map<const Matrix>(start.data<double>(), rank_, columns).transpose();
  }

  // The smallest relative length of a remainder of an independent column. A shorter remainder is a rounding
  // error of f32.
  static constexpr double kIndependent = 1e-4;

  // Orthonormalises columns by Gram and Schmidt. A column that depends on earlier columns is replaced by the
  // first unit vector that is independent of them.
  static Matrix Orthonormal(Matrix p) {
    for (int64_t k = 0; k < p.cols(); ++k) {
      const auto subtract_earlier = [&] {
        for (int64_t i = 0; i < k; ++i) p.col(k) -= p.col(i).dot(p.col(k)) * p.col(i);
      };
      double before = p.col(k).norm();
      subtract_earlier();
      for (int64_t unit = 0; p.col(k).norm() <= kIndependent * before; ++unit) {
        p.col(k) = Eigen::VectorXd::Unit(p.rows(), unit);
        before = 1;
        subtract_earlier();
      }
      subtract_earlier();  // The second subtraction removes rounding errors of the first.
      p.col(k).normalize();
    }
    return p;
  }

  const int64_t rank_;
  const double min_compression_;
  const std::vector<model::Shape> shapes_;
  std::map<size_t, Kept> kept_;  // by parameter
};

class TopK : public Reference {
 public:
  TopK(std::span<const model::Shape> shapes, double percent, bool keeps_error)
      : shapes_(shapes.begin(), shapes.end()), percent_(percent), keeps_error_(keeps_error) {}

  Vector Next(size_t p, std::span<const Vector> of_ranks) override {
    if (shapes_[p].size() < 2) return Mean(of_ranks);
    std::vector<Vector>& memory = memory_[p];
    memory.resize(of_ranks.size(), Vector(of_ranks[0].size()));
    std::vector<Vector> sent;
    for (size_t r = 0; r < of_ranks.size(); ++r) sent.push_back(Send(of_ranks[r], memory[r]));
    return Mean(sent);
  }

 private:
  Vector Send(const Vector& gradient, Vector& memory) const {
    for (size_t i = 0; i < memory.size(); ++i)
      memory[i] = static_cast<double>(static_cast<float>(memory[i] + gradient[i]));
    std::vector<size_t> largest_first(memory.size());
    std::iota(largest_first.begin(), largest_first.end(), size_t{0});
    const auto count = static_cast<size_t>(std::ceil(percent_ * static_cast<double>(memory.size()) / 100));
    std::partial_sort(largest_first.begin(), largest_first.begin() + static_cast<std::ptrdiff_t>(count),
                      largest_first.end(), [&](size_t a, size_t b) {
                        const double x = std::abs(memory[a]), y = std::abs(memory[b]);
                        return x > y || (x == y && a < b);
                      });
    Vector sent(memory.size());
    for (size_t n = 0; n < count; ++n) std::swap(sent[largest_first[n]], memory[largest_first[n]]);
    if (!keeps_error_) memory.assign(memory.size(), 0);
    return sent;
  }

  const std::vector<model::Shape> shapes_;
  const double percent_;
  const bool keeps_error_;
  std::map<size_t, std::vector<Vector>> memory_;  // by parameter, then by rank
};

class ExactStart : public Reference {
 public:
  ExactStart(int64_t num_steps, std::unique_ptr<Reference> then)
      : num_steps_(num_steps), then_(std::move(then)) {}

  Vector Next(size_t p, std::span<const Vector> of_ranks) override {
    return num_taken_[p]++ < num_steps_ ? Mean(of_ranks) : then_->Next(p, of_ranks);
  }

 private:
  const int64_t num_steps_;
  const std::unique_ptr<Reference> then_;
  std::map<size_t, int64_t> num_taken_;  // steps, by parameter
};

class Diloco : public Reference {
 public:
  Diloco(std::function<Vector(size_t)> weights, double rate, double momentum)
      : start_(std::move(weights)), rate_(rate), momentum_(momentum) {}

  Vector Next(size_t p, std::span<const Vector> of_ranks) override {
    const auto [outer, is_first] = outer_.try_emplace(p);
    auto& [weights, velocity] = outer->second;
    if (is_first) {
      weights = start_(p);
      velocity.assign(weights.size(), 0);
    }
    const Vector mean = Mean(of_ranks);
    for (size_t i = 0; i < mean.size(); ++i) {
      const double delta = weights[i] - mean[i];
      velocity[i] = momentum_ * velocity[i] + delta;
      weights[i] -= rate_ * (delta + momentum_ * velocity[i]);
    }
    return weights;
  }

 private:
  struct Outer {
    Vector weights, velocity;
  };

  const std::function<Vector(size_t)> start_;
  const double rate_, momentum_;
  std::map<size_t, Outer> outer_;  // by parameter
};

}  // namespace

std::unique_ptr<Reference> MeanReference(bool rounds) { return std::make_unique<MeanOf>(rounds); }
std::unique_ptr<Reference> MakeReference(const Traits& traits, const ReferenceContext& context) {
  return std::make_unique<ExactStart>(StartOf(traits, context.options), traits.reference(context));
}
std::unique_ptr<Reference> PowerSgdReference(std::span<const model::Shape> shapes, double rank,
                                             double min_compression) {
  return std::make_unique<PowerSgd>(shapes, rank, min_compression);
}
std::unique_ptr<Reference> TopKReference(std::span<const model::Shape> shapes, double percent,
                                         bool keeps_error) {
  return std::make_unique<TopK>(shapes, percent, keeps_error);
}
std::unique_ptr<Reference> DilocoReference(std::function<Vector(size_t)> weights, double rate,
                                           double momentum) {
  return std::make_unique<Diloco>(std::move(weights), rate, momentum);
}

}  // namespace gradsync::ddp
