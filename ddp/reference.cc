#include "ddp/reference.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "model/random.h"

namespace gradsync::ddp {
namespace {

using Vector = Reference::Vector;

// To the eight significant bits of bf16, ties to even.
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
      : rank_(static_cast<size_t>(rank)),
        min_compression_(min_compression),
        shapes_(shapes.begin(), shapes.end()) {}

  // Each rank's M is its gradient plus its error. Factors are stored by column, one after the other.
  Vector Next(size_t i, std::span<const Vector> of_ranks) override {
    const size_t numel = of_ranks[0].size();
    const size_t rows = shapes_[i].empty() || numel == 0 ? 1 : static_cast<size_t>(shapes_[i][0]);
    const size_t columns = numel / rows;
    const auto sent = static_cast<double>(rank_ * (rows + columns));
    if (static_cast<double>(numel) / sent <= min_compression_) return Mean(of_ranks);
    const auto [kept, is_first] = kept_.try_emplace(i);
    Vector& q = kept->second.q;
    std::vector<Vector>& errors = kept->second.errors;
    if (is_first) {
      q = Start(i, columns);
      errors.assign(of_ranks.size(), Vector(numel));
    }
    const double share = 1 / static_cast<double>(of_ranks.size());
    std::vector<Vector> m(of_ranks.begin(), of_ranks.end());
    for (size_t r = 0; r < m.size(); ++r) {
      for (size_t at = 0; at < numel; ++at) m[r][at] += errors[r][at];
    }
    Vector p(rank_ * rows);
    for (const Vector& matrix : m) {
      for (size_t k = 0; k < rank_; ++k) {
        for (size_t row = 0; row < rows; ++row) {
          for (size_t col = 0; col < columns; ++col)
            p[k * rows + row] += share * matrix[row * columns + col] * q[k * columns + col];
        }
      }
    }
    Orthonormalise(rows, p);
    q.assign(rank_ * columns, 0);
    for (const Vector& matrix : m) {
      for (size_t k = 0; k < rank_; ++k) {
        for (size_t row = 0; row < rows; ++row) {
          for (size_t col = 0; col < columns; ++col)
            q[k * columns + col] += share * matrix[row * columns + col] * p[k * rows + row];
        }
      }
    }
    Vector product(numel);
    for (size_t row = 0; row < rows; ++row) {
      for (size_t k = 0; k < rank_; ++k) {
        for (size_t col = 0; col < columns; ++col)
          product[row * columns + col] += p[k * rows + row] * q[k * columns + col];
      }
    }
    for (size_t r = 0; r < m.size(); ++r) {
      for (size_t at = 0; at < numel; ++at) errors[r][at] = m[r][at] - product[at];
    }
    return product;
  }

 private:
  struct Kept {
    Vector q;
    std::vector<Vector> errors;  // by rank
  };

  Vector Start(size_t i, size_t columns) const {
    const auto start = model::Tensor::Empty(
        model::CpuDevice(), {static_cast<int64_t>(rank_), static_cast<int64_t>(columns)}, model::DType::kF64);
    model::FillTruncatedNormal(start, 1, 0, i);
    return start.ToVector<double>();
  }

  // What is left of a column that does not depend on those before it, by which it is told from rounding
  // errors of f32.
  static constexpr double kIndependent = 1e-4;

  // Gram and Schmidt. A column that depends on those before it gives way to the first unit vector that does
  // not.
  void Orthonormalise(size_t rows, Vector& p) const {
    const auto subtract_earlier = [&](size_t k) {
      for (size_t earlier = 0; earlier < k; ++earlier) {
        double dot = 0;
        for (size_t row = 0; row < rows; ++row) dot += p[k * rows + row] * p[earlier * rows + row];
        for (size_t row = 0; row < rows; ++row) p[k * rows + row] -= dot * p[earlier * rows + row];
      }
    };
    const auto norm = [&](size_t k) {
      double squares = 0;
      for (size_t row = 0; row < rows; ++row) squares += p[k * rows + row] * p[k * rows + row];
      return std::sqrt(squares);
    };
    for (size_t k = 0; k < rank_; ++k) {
      double before = norm(k);
      subtract_earlier(k);
      for (size_t unit = 0; norm(k) <= kIndependent * before; ++unit) {
        for (size_t row = 0; row < rows; ++row) p[k * rows + row] = row == unit ? 1 : 0;
        before = 1;
        subtract_earlier(k);
      }
      subtract_earlier(k);  // Once more, for what the first subtraction left by rounding.
      const double length = norm(k);
      for (size_t row = 0; row < rows; ++row) p[k * rows + row] /= length;
    }
  }

  const size_t rank_;
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
    const auto count = static_cast<size_t>(std::ceil(percent_ / 100 * static_cast<double>(memory.size())));
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
