#include "model/function_cases.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_join.h"
#include "model/functions.h"
#include "model/tensor/random.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::model {
namespace {

using Values = std::vector<double>;
using Ids = std::vector<int32_t>;

size_t Size(int64_t n) { return static_cast<size_t>(n); }

std::string Label(const std::string& op, const Shape& shape) {
  return Join(op, "_", absl::StrJoin(shape, "_"));
}

// Makes n ids below `vocab`, with repetitions, and with the first and last id of the vocabulary if n is large
// enough.
Ids MakeIds(int64_t n, int64_t vocab) {
  Ids ids;
  for (int64_t i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>((i * 7 + vocab - 1) % vocab));
  return ids;
}

FunctionCase LinearCase(Shape leading, int64_t in, int64_t out) {
  const int64_t rows = Numel(leading);
  Shape x = std::move(leading);
  x.push_back(in);
  const auto plain = [=](const std::vector<Values>& inputs, const Values& dy) {
    PlainResult result{Values(Size(rows * out)), {Values(Size(rows * in)), Values(Size(out * in))}};
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t o = 0; o < out; ++o) {
        for (int64_t i = 0; i < in; ++i) {
          const double a = inputs[0][Size(r * in + i)];
          const double w = inputs[1][Size(o * in + i)];
          const double g = dy[Size(r * out + o)];
          result.output[Size(r * out + o)] += a * w;
          result.input_grads[0][Size(r * in + i)] += g * w;
          result.input_grads[1][Size(o * in + i)] += g * a;
        }
      }
    }
    return result;
  };
  return {.name = Label("Linear", x) + "_to_" + std::to_string(out),
          .inputs = {x, {out, in}},
          .roles = {Role::kActivation, Role::kMatrix},
          .function = [](const std::vector<Var>& v) { return Linear(v[0], v[1]); },
          .plain = plain,
          .longest_sum = std::max({rows, in, out}),
          .same_for_any_threads = false};
}

FunctionCase AddLinearCase(Shape leading, int64_t in, int64_t out) {
  FunctionCase c = LinearCase(leading, in, out);
  c.name = "Add" + c.name;
  Shape y = std::move(leading);
  y.push_back(out);
  c.inputs.push_back(y);
  c.roles.push_back(Role::kActivation);
  c.function = [](const std::vector<Var>& v) { return AddLinear(v[2], v[0], v[1]); };
  c.plain = [product = c.plain](const std::vector<Values>& inputs, const Values& dy) {
    PlainResult result = product(inputs, dy);
    for (size_t i = 0; i < dy.size(); ++i) result.output[i] += inputs[2][i];
    result.input_grads.push_back(dy);
    return result;
  };
  return c;
}

FunctionCase EmbeddingCase(Shape shape, int64_t vocab, int64_t d) {
  const int64_t n = Numel(shape);
  const Ids ids = MakeIds(n, vocab);
  const auto plain = [=](const std::vector<Values>& inputs, const Values& dy) {
    PlainResult result{Values(Size(n * d)), {Values(Size(vocab * d))}};
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < d; ++j) {
        result.output[Size(i * d + j)] = inputs[0][Size(ids[Size(i)] * d + j)];
        result.input_grads[0][Size(ids[Size(i)] * d + j)] += dy[Size(i * d + j)];
      }
    }
    return result;
  };
  const auto function = [=](const std::vector<Var>& v) {
    return Embedding(Tensor::From<int32_t>(v[0].value().device(), shape, std::span<const int32_t>(ids)),
                     v[0]);
  };
  return {.name = Label("Embedding", shape) + "_of_" + std::to_string(vocab) + "_" + std::to_string(d),
          .inputs = {{vocab, d}},
          .roles = {Role::kMatrix},
          .function = function,
          .plain = plain,
          .longest_sum = n};
}

FunctionCase RmsNormCase(Shape x) {
  const int64_t d = x.back();
  const int64_t rows = Numel(x) / d;
  const double eps = 1e-2;
  const auto plain = [=](const std::vector<Values>& inputs, const Values& dy) {
    PlainResult result{Values(Size(rows * d)), {Values(Size(rows * d)), Values(Size(d))}};
    for (int64_t r = 0; r < rows; ++r) {
      const auto x_at = [&](int64_t i) { return inputs[0][Size(r * d + i)]; };
      const auto g_at = [&](int64_t i) { return dy[Size(r * d + i)]; };
      double squares = 0;
      for (int64_t i = 0; i < d; ++i) squares += x_at(i) * x_at(i);
      const double rms = std::sqrt(squares / static_cast<double>(d) + eps);
      for (int64_t i = 0; i < d; ++i) {
        const double w = inputs[1][Size(i)];
        result.output[Size(r * d + i)] = x_at(i) / rms * w;
        result.input_grads[1][Size(i)] += g_at(i) * x_at(i) / rms;
        result.input_grads[0][Size(r * d + i)] += g_at(i) * w / rms;
        // d(1 / rms) / dx_j = -x_j / (d rms^3).
        for (int64_t j = 0; j < d; ++j) {
          result.input_grads[0][Size(r * d + j)] -=
              g_at(i) * w * x_at(i) * x_at(j) / (static_cast<double>(d) * rms * rms * rms);
        }
      }
    }
    return result;
  };
  return {.name = Label("RmsNorm", x),
          .inputs = {x, {d}},
          .roles = {Role::kActivation, Role::kVector},
          .function = [=](const std::vector<Var>& v) { return RmsNorm(v[0], v[1], eps); },
          .plain = plain,
          .longest_sum = std::max(rows, d)};
}

FunctionCase RopeCase(int64_t batch, int64_t seq, int64_t heads, int64_t head_dim, double theta) {
  const Shape x{batch, seq, heads * head_dim};
  const auto plain = [=](const std::vector<Values>& inputs, const Values& dy) {
    PlainResult result{Values(dy.size()), {Values(dy.size())}};
    for (int64_t pair = 0; pair < Numel(x) / 2; ++pair) {
      const int64_t position = 2 * pair / (heads * head_dim) % seq;
      const int64_t i = pair % (head_dim / 2);
      const double angle =
          static_cast<double>(position) /
          std::exp(std::log(theta) * 2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
      const double c = std::cos(angle), s = std::sin(angle);
      const size_t a = Size(2 * pair), b = a + 1;
      result.output[a] = inputs[0][a] * c - inputs[0][b] * s;
      result.output[b] = inputs[0][a] * s + inputs[0][b] * c;
      result.input_grads[0][a] = dy[a] * c + dy[b] * s;
      result.input_grads[0][b] = -dy[a] * s + dy[b] * c;
    }
    return result;
  };
  return {.name = Label("Rope", x) + "_heads_" + std::to_string(heads),
          .inputs = {x},
          .function = [=](const std::vector<Var>& v) { return Rope(v[0], heads, theta); },
          .plain = plain,
          // The error of an angle of p radians is p eps.
          .longest_sum = seq * seq};
}

// Computes forward and backward with the whole matrix of probabilities.
PlainResult PlainAttention(const std::vector<Values>& inputs, const Values& dy, int64_t batch, int64_t seq,
                           int64_t heads, int64_t dim) {
  const Values &q = inputs[0], &k = inputs[1], &v = inputs[2];
  PlainResult result{Values(dy.size()), {Values(dy.size()), Values(dy.size()), Values(dy.size())}};
  const double scale = 1 / std::sqrt(static_cast<double>(dim));
  for (int64_t head = 0; head < batch * heads; ++head) {
    const auto at = [&](int64_t position, int64_t i) {
      return Size((head / heads * seq + position) * heads * dim + head % heads * dim + i);
    };
    std::vector<Values> p(Size(seq), Values(Size(seq))), dp = p;
    for (int64_t i = 0; i < seq; ++i) {
      double sum = 0;
      for (int64_t j = 0; j <= i; ++j) {
        double score = 0;
        for (int64_t c = 0; c < dim; ++c) score += q[at(i, c)] * k[at(j, c)];
        sum += p[Size(i)][Size(j)] = std::exp(score * scale);
      }
      double dot = 0;
      for (int64_t j = 0; j <= i; ++j) {
        p[Size(i)][Size(j)] /= sum;
        for (int64_t c = 0; c < dim; ++c) {
          result.output[at(i, c)] += p[Size(i)][Size(j)] * v[at(j, c)];
          result.input_grads[2][at(j, c)] += p[Size(i)][Size(j)] * dy[at(i, c)];
          dp[Size(i)][Size(j)] += dy[at(i, c)] * v[at(j, c)];
        }
        dot += p[Size(i)][Size(j)] * dp[Size(i)][Size(j)];
      }
      for (int64_t j = 0; j <= i; ++j) {
        const double ds = p[Size(i)][Size(j)] * (dp[Size(i)][Size(j)] - dot) * scale;
        for (int64_t c = 0; c < dim; ++c) {
          result.input_grads[0][at(i, c)] += ds * k[at(j, c)];
          result.input_grads[1][at(j, c)] += ds * q[at(i, c)];
        }
      }
    }
  }
  return result;
}

FunctionCase AttentionCase(int64_t batch, int64_t seq, int64_t heads, int64_t dim) {
  const Shape x{batch, seq, heads * dim};
  return {.name = Label("CausalAttention", x) + "_heads_" + std::to_string(heads),
          .inputs = {x, x, x},
          .function = [=](const std::vector<Var>& v) { return CausalAttention(v[0], v[1], v[2], heads); },
          .plain = [=](const std::vector<Values>& inputs,
                       const Values& dy) { return PlainAttention(inputs, dy, batch, seq, heads, dim); },
          .longest_sum = std::max(seq, dim)};
}

FunctionCase SwiGluCase(Shape x) {
  const auto plain = [](const std::vector<Values>& inputs, const Values& dy) {
    PlainResult result{Values(dy.size()), {Values(dy.size()), Values(dy.size())}};
    for (size_t i = 0; i < dy.size(); ++i) {
      const double g = inputs[0][i], up = inputs[1][i];
      const double e = std::exp(-g);
      const double silu = g / (1 + e);
      result.output[i] = silu * up;
      result.input_grads[0][i] = dy[i] * up * (1 / (1 + e) + g * e / ((1 + e) * (1 + e)));
      result.input_grads[1][i] = dy[i] * silu;
    }
    return result;
  };
  return {.name = Label("SwiGlu", x),
          .inputs = {x, x},
          .function = [](const std::vector<Var>& v) { return SwiGlu(v[0], v[1]); },
          .plain = plain};
}

FunctionCase ScaleCase(Shape x) {
  const double factor = -0.375;
  const auto plain = [=](const std::vector<Values>& inputs, const Values& dy) {
    PlainResult result{inputs[0], {dy}};
    for (double& value : result.output) value *= factor;
    for (double& value : result.input_grads[0]) value *= factor;
    return result;
  };
  return {.name = Label("Scale", x),
          .inputs = {x},
          .function = [=](const std::vector<Var>& v) { return Scale(v[0], factor); },
          .plain = plain};
}

FunctionCase CrossEntropyCase(Shape positions, int64_t vocab) {
  const int64_t rows = Numel(positions);
  const Ids targets = MakeIds(rows, vocab);
  Shape logits = positions;
  logits.push_back(vocab);
  const auto plain = [=](const std::vector<Values>& inputs, const Values& dy) {
    PlainResult result{Values(1), {Values(inputs[0].size())}};
    const double n = static_cast<double>(rows);
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t i = 0; i < vocab; ++i) sum += std::exp(inputs[0][Size(r * vocab + i)]);
      for (int64_t i = 0; i < vocab; ++i) {
        const double p = std::exp(inputs[0][Size(r * vocab + i)]) / sum;
        const bool is_target = i == targets[Size(r)];
        if (is_target) result.output[0] -= std::log(p) / n;
        result.input_grads[0][Size(r * vocab + i)] = dy[0] / n * (p - (is_target ? 1 : 0));
      }
    }
    return result;
  };
  const auto function = [=](const std::vector<Var>& v) {
    const DevicePtr device = v[0].value().device();
    return CrossEntropy(v[0], Tensor::From<int32_t>(device, positions, std::span<const int32_t>(targets)));
  };
  return {.name = Label("CrossEntropy", logits),
          .inputs = {logits},
          .function = function,
          .plain = plain,
          .longest_sum = std::max(rows, vocab)};
}

}  // namespace

std::vector<FunctionCase> WithBF16(std::vector<FunctionCase> cases) {
  for (FunctionCase& c : cases) c.dtypes.push_back(DType::kBF16);
  return cases;
}

std::vector<FunctionCase> SmallFunctionCases() {
  return WithBF16({LinearCase({1}, 1, 1),
                   LinearCase({3}, 5, 7),
                   LinearCase({2, 3}, 5, 4),
                   LinearCase({}, 5, 3),
                   LinearCase({2, 1, 3}, 1, 6),
                   AddLinearCase({1}, 1, 1),
                   AddLinearCase({2, 3}, 5, 4),
                   EmbeddingCase({}, 1, 1),
                   EmbeddingCase({3}, 4, 3),
                   EmbeddingCase({2, 5}, 3, 1),
                   EmbeddingCase({2, 2}, 30, 5),
                   RmsNormCase({1}),
                   RmsNormCase({1, 1}),
                   RmsNormCase({3, 5}),
                   RmsNormCase({2, 3, 8}),
                   RmsNormCase({2, 131}),
                   RopeCase(1, 1, 1, 2, 10000),
                   RopeCase(2, 3, 2, 4, 10000),
                   RopeCase(1, 7, 3, 6, 100),
                   RopeCase(3, 2, 1, 10, 2),
                   AttentionCase(1, 1, 1, 1),
                   AttentionCase(2, 3, 2, 2),
                   AttentionCase(1, 5, 3, 3),
                   AttentionCase(3, 2, 1, 4),
                   AttentionCase(1, 65, 2, 1),
                   SwiGluCase({1}),
                   SwiGluCase({7}),
                   SwiGluCase({2, 1, 9}),
                   ScaleCase({1}),
                   ScaleCase({3, 5}),
                   CrossEntropyCase({1}, 1),
                   CrossEntropyCase({}, 5),
                   CrossEntropyCase({3}, 7),
                   CrossEntropyCase({2, 3}, 4)});
}

std::vector<FunctionCase> LargeFunctionCases() {
  return WithBF16(
      {LinearCase({2, 65}, 96, 130),    AddLinearCase({2, 65}, 96, 130), LinearCase({3, 43}, 257, 33),
       EmbeddingCase({3, 70}, 50, 200), RmsNormCase({2, 70, 300}),       RopeCase(2, 70, 4, 16, 10000),
       RopeCase(3, 200, 3, 24, 10000),  AttentionCase(2, 2, 2, 8),       AttentionCase(2, 63, 2, 8),
       AttentionCase(1, 64, 3, 8),      AttentionCase(2, 65, 1, 16),     AttentionCase(2, 130, 5, 12),
       AttentionCase(1, 70, 2, 64),     AttentionCase(1, 129, 1, 80),    AttentionCase(1, 33, 2, 96),
       AttentionCase(1, 97, 1, 128),    RmsNormCase({3, 1100}),          RmsNormCase({3, 43, 24}),
       EmbeddingCase({300}, 7, 1100),   SwiGluCase({3, 50, 299}),        ScaleCase({2, 70, 100}),
       CrossEntropyCase({4, 17}, 300)});
}

std::vector<FunctionCase> OnDevice(std::vector<FunctionCase> cases,
                                   const std::function<DevicePtr()>& device) {
  for (FunctionCase& c : cases) c.device = device;
  return cases;
}

std::vector<Tensor> MakeInputs(const FunctionCase& c, const DevicePtr& device, DType dtype) {
  const DevicePtr host = CpuDevice();
  std::vector<Tensor> inputs;
  for (const Shape& shape : c.inputs) {
    const size_t i = inputs.size();
    const Role role = c.roles.empty() ? Role::kActivation : c.roles[i];
    const Tensor f32 = Tensor::Empty(host, shape, DType::kF32);
    FillTruncatedNormal(f32, 1.0, /*seed=*/3, /*stream=*/i);
    Tensor input = f32;
    if (dtype == DType::kF64) {
      input = Tensor::Empty(host, shape, DType::kF64);
      std::copy_n(f32.data<float>(), f32.numel(), input.data<double>());
    } else if (dtype == DType::kBF16 && role != Role::kVector) {
      const Tensor rounded = Tensor::Empty(host, shape, DType::kBF16);
      Cast(f32, rounded);
      if (role == Role::kActivation) {
        input = rounded;
      } else {
        const BF16* const values = rounded.data<BF16>();
        std::transform(values, values + f32.numel(), f32.data<float>(),
                       [](BF16 value) { return static_cast<float>(value); });
      }
    }
    inputs.push_back(input.To(device));
  }
  return inputs;
}

Parameter::Copy CopyOfInput(const FunctionCase& c, size_t i, DType dtype) {
  const bool copied = dtype == DType::kBF16 && !c.roles.empty() && c.roles[i] == Role::kMatrix;
  return copied ? Parameter::Copy::kBF16 : Parameter::Copy::kNone;
}

}  // namespace gradsync::model
