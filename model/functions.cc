#include "model/functions.h"

#include <string_view>
#include <utility>

#include "model/function_support.h"
#include "model/kernels/attention.h"
#include "model/kernels/cross_entropy.h"
#include "model/kernels/elementwise.h"
#include "model/kernels/embedding.h"
#include "model/kernels/gemm.h"
#include "model/kernels/norm.h"
#include "model/kernels/rope.h"

namespace gradsync::model {
namespace {

namespace cpu = kernels::cpu;
namespace cuda = kernels::cuda;

// Names the first id that is not a row of a table. On CUDA nobody looks: reading them would stop the host
// until the GPU has caught up. The kernels make NaN of wrong ones.
void RequireIds(std::string_view op, std::string_view name, const Tensor& ids, int64_t vocab) {
  if (!ids.device()->is_cpu()) return;
  const int32_t* values = ids.data<int32_t>();
  for (int64_t i = 0; i < ids.numel(); ++i) {
    Require(values[i] >= 0 && values[i] < vocab, op, ": ", name, "[", i, "] is ", values[i],
            ", expected 0 to ", vocab - 1, " for a vocabulary of ", vocab);
  }
}

// The shape of num_heads heads side by side in x (batch, seq, d_model).
kernels::AttentionShape Heads(std::string_view op, std::string_view name, const Tensor& x,
                              int64_t num_heads) {
  Require(x.defined() && x.rank() == 3, op, ": ", name, " is ", Describe{x},
          ", expected (batch, seq, d_model)");
  const int64_t d_model = x.dim(2);
  Require(num_heads >= 1 && d_model >= 1 && d_model % num_heads == 0, op, ": d_model ", d_model, " of ", name,
          " ", Describe{x}, " does not divide into ", num_heads, " heads");
  return {.batch = x.dim(0), .seq = x.dim(1), .num_heads = num_heads, .head_dim = d_model / num_heads};
}

// c = or += a b. A parameter's gradient may be f32 where a and b are bf16.
template <class T>
void Multiply(Device& device, int64_t m, int64_t n, int64_t k, kernels::Operand<T> a, kernels::Operand<T> b,
              const Tensor& c, bool accumulate) {
  const auto to = [&]<class C>() {
    On(device, cpu::Gemm<T, C>, cuda::Gemm<T, C>)(device, m, n, k, a, b, c.data<C>(), n, accumulate);
  };
  if (c.dtype() == kDTypeOf<Wide<T>>) return to.template operator()<Wide<T>>();
  to.template operator()<T>();
}

void RequireLinear(std::string_view op, const Tensor& x, const Tensor& weight) {
  RequirePair(SameKind(x, weight) && x.rank() >= 1 && weight.rank() == 2 && x.dim(-1) == weight.dim(1), op,
              "x", x, "weight", weight, "(..., in) and (out, in) of one dtype and device");
}

// What x weight^T contributes to the gradients of x, input 0, and of weight, input 1.
void LinearGrad(std::string_view name, const Tensor& x, const Tensor& weight, OpGradient& op) {
  const Tensor& dy = op.output_grad();
  const int64_t rows = Rows(x), in = weight.dim(1), out = weight.dim(0);
  Device& device = *x.device();
  Run(name, dy, [&]<class T>() {
    op.Contribute(1, [&](const Tensor& dweight, bool accumulate) {
      Multiply<T>(device, out, in, rows, {dy.data<T>(), out, true}, {x.data<T>(), in}, dweight, accumulate);
    });
    op.Contribute(0, [&](const Tensor& dx, bool accumulate) {
      Multiply<T>(device, rows, in, out, {dy.data<T>(), out}, {weight.data<T>(), in}, dx, accumulate);
    });
  });
}

}  // namespace

Var Linear(const Var& x_var, const Var& weight_var) {
  const Tensor x = x_var.value(), weight = weight_var.value();
  RequireLinear("linear", x, weight);
  const int64_t rows = Rows(x), in = weight.dim(1), out = weight.dim(0);
  const Tensor y = EmptyWithLast(x, out);
  Device& device = *x.device();
  Run("linear", x, [&]<class T>() {
    Multiply<T>(device, rows, out, in, {x.data<T>(), in}, {weight.data<T>(), in, true}, y, false);
  });
  return Var::FromOp("linear", y, {x_var, weight_var},
                     [=](OpGradient& op) { LinearGrad("linear", x, weight, op); });
}

Var AddLinear(const Var& addend_var, const Var& x_var, const Var& weight_var) {
  const Tensor addend = addend_var.value(), x = x_var.value(), weight = weight_var.value();
  RequireLinear("add_linear", x, weight);
  const int64_t rows = Rows(x), in = weight.dim(1), out = weight.dim(0);
  const Tensor y = EmptyWithLast(x, out);
  RequirePair(SameShape(addend, y), "add_linear", "addend", addend, "x weight^T", y,
              "one shape, dtype and device");
  Device& device = *x.device();
  Run("add_linear", x, [&]<class T>() {
    On(device, cpu::GemmPlus<T>, cuda::GemmPlus<T>)(device, rows, out, in, {x.data<T>(), in},
                                                    {weight.data<T>(), in, true}, addend.data<T>(),
                                                    y.data<T>(), out);
  });
  return Var::FromOp("add_linear", y, {x_var, weight_var, addend_var}, [=](OpGradient& op) {
    LinearGrad("add_linear", x, weight, op);
    op.PassThrough(2);
  });
}

Var Embedding(const Tensor& ids, const Var& weight_var) {
  const Tensor weight = weight_var.value();
  RequirePair(ids.defined() && ids.dtype() == DType::kI32 && weight.defined() && weight.rank() == 2 &&
                  ids.device() == weight.device(),
              "embedding", "ids", ids, "weight", weight, "i32 ids and a (vocab, d) weight on one device");
  const int64_t vocab = weight.dim(0), d = weight.dim(1);
  RequireIds("embedding", "ids", ids, vocab);
  Shape shape = ids.shape();
  shape.push_back(d);
  const Tensor y = Tensor::Empty(weight.device(), std::move(shape), weight.dtype());
  Device& device = *weight.device();
  Run("embedding", weight, [&]<class T>() {
    On(device, cpu::Embedding<T>, cuda::Embedding<T>)(device, ids.data<int32_t>(), weight.data<T>(),
                                                      ids.numel(), vocab, d, y.data<T>());
  });
  return Var::FromOp("embedding", y, {weight_var}, [=, &device](OpGradient& op) {
    const Tensor& dy = op.output_grad();
    op.Contribute(0, [&](const Tensor& dweight, bool accumulate) {
      Run("embedding", dy, [&]<class T>() {
        On(device, cpu::EmbeddingGrad<T>, cuda::EmbeddingGrad<T>)(device, ids.data<int32_t>(), dy.data<T>(),
                                                                  ids.numel(), vocab, d,
                                                                  dweight.data<Wide<T>>(), accumulate);
      });
    });
  });
}

Var RmsNorm(const Var& x_var, const Var& weight_var, double eps) {
  const Tensor x = x_var.value(), weight = weight_var.value();
  RequirePair(WideOfSameKind(x, weight) && x.rank() >= 1 && weight.rank() == 1 &&
                  x.dim(-1) == weight.dim(0) && weight.dim(0) >= 1,
              "rms_norm", "x", x, "weight", weight,
              "(..., d) and (d) of one dtype (for bf16: f32) and device, d at least 1");
  Require(eps >= 0, "rms_norm: eps is ", eps, ", expected at least 0");
  const int64_t rows = Rows(x), d = weight.dim(0);
  const Tensor y = EmptyLike(x);
  const Tensor r = Tensor::Empty(x.device(), {rows}, weight.dtype());
  Device& device = *x.device();
  Run("rms_norm", x, [&]<class T>() {
    On(device, cpu::RmsNorm<T>, cuda::RmsNorm<T>)(device, x.data<T>(), weight.data<Wide<T>>(), rows, d, eps,
                                                  y.data<T>(), r.data<Wide<T>>());
  });
  return Var::FromOp("rms_norm", y, {x_var, weight_var}, [=, &device](OpGradient& op) {
    const Tensor& dy = op.output_grad();
    Run("rms_norm", dy, [&]<class T>() {
      op.Contribute(1, [&](const Tensor& dweight, bool accumulate) {
        On(device, cpu::RmsNormWeightGrad<T>, cuda::RmsNormWeightGrad<T>)(
            device, x.data<T>(), r.data<Wide<T>>(), dy.data<T>(), rows, d, dweight.data<Wide<T>>(),
            accumulate);
      });
      op.Contribute(0, [&](const Tensor& dx, bool accumulate) {
        On(device, cpu::RmsNormInputGrad<T>, cuda::RmsNormInputGrad<T>)(
            device, x.data<T>(), weight.data<Wide<T>>(), r.data<Wide<T>>(), dy.data<T>(), rows, d,
            dx.data<T>(), accumulate);
      });
    });
  });
}

Var Rope(const Var& x_var, int64_t num_heads, double theta) {
  const Tensor x = x_var.value();
  const auto [batch, seq, heads, head_dim] = Heads("rope", "x", x, num_heads);
  Require(head_dim % 2 == 0, "rope: a head of x ", Describe{x}, " in ", num_heads, " heads has size ",
          head_dim, ", expected an even one");
  Require(theta > 0, "rope: theta is ", theta, ", expected more than 0");
  const kernels::RopeShape shape{.batch = batch, .seq = seq, .num_heads = heads, .head_dim = head_dim};
  const Tensor y = EmptyLike(x);
  Device& device = *x.device();
  Run("rope", x, [&]<class T>() {
    On(device, cpu::Rope<T>, cuda::Rope<T>)(device, shape, theta, /*inverse=*/false, x.data<T>(), y.data<T>(),
                                            /*accumulate=*/false);
  });
  return Var::FromOp("rope", y, {x_var}, [shape, theta, &device](OpGradient& op) {
    const Tensor& dy = op.output_grad();
    op.Contribute(0, [&](const Tensor& dx, bool accumulate) {
      Run("rope", dy, [&]<class T>() {
        On(device, cpu::Rope<T>, cuda::Rope<T>)(device, shape, theta, /*inverse=*/true, dy.data<T>(),
                                                dx.data<T>(), accumulate);
      });
    });
  });
}

Var CausalAttention(const Var& q_var, const Var& k_var, const Var& v_var, int64_t num_heads) {
  const Tensor q = q_var.value(), k = k_var.value(), v = v_var.value();
  const kernels::AttentionShape shape = Heads("attention", "q", q, num_heads);
  RequirePair(SameShape(q, k), "attention", "q", q, "k", k, "one shape, dtype and device");
  RequirePair(SameShape(q, v), "attention", "q", q, "v", v, "one shape, dtype and device");
  const Tensor y = EmptyLike(q);
  const Tensor log_sum_exp =
      Tensor::Empty(q.device(), {shape.batch, num_heads, shape.seq}, WideDType(q.dtype()));
  Device& device = *q.device();
  Run("attention", q, [&]<class T>() {
    On(device, cpu::CausalAttention<T>, cuda::CausalAttention<T>)(
        device, shape, q.data<T>(), k.data<T>(), v.data<T>(), y.data<T>(), log_sum_exp.data<Wide<T>>());
  });
  return Var::FromOp("attention", y, {q_var, k_var, v_var}, [=, &device](OpGradient& op) {
    const bool shared = q.SameStorage(k) || q.SameStorage(v) || k.SameStorage(v);
    ContributeTogether<3>(op, shared, [&](const Places<3>& grads) {
      const Tensor& dy = op.output_grad();
      Run("attention", dy, [&]<class T>() {
        On(device, cpu::CausalAttentionGrad<T>, cuda::CausalAttentionGrad<T>)(
            device, shape, q.data<T>(), k.data<T>(), v.data<T>(), y.data<T>(), log_sum_exp.data<Wide<T>>(),
            dy.data<T>(), TargetOf<T>(grads[0]), TargetOf<T>(grads[1]), TargetOf<T>(grads[2]));
      });
    });
  });
}

Var SwiGlu(const Var& gate_var, const Var& up_var) {
  const Tensor gate = gate_var.value(), up = up_var.value();
  RequirePair(SameShape(gate, up), "swiglu", "gate", gate, "up", up, "one shape, dtype and device");
  const Tensor y = EmptyLike(gate);
  Device& device = *gate.device();
  Run("swiglu", gate, [&]<class T>() {
    On(device, cpu::SwiGlu<T>, cuda::SwiGlu<T>)(device, gate.data<T>(), up.data<T>(), gate.numel(),
                                                y.data<T>());
  });
  return Var::FromOp("swiglu", y, {gate_var, up_var}, [gate, up, &device](OpGradient& op) {
    ContributeTogether<2>(op, gate.SameStorage(up), [&](const Places<2>& grads) {
      const Tensor& dy = op.output_grad();
      Run("swiglu", dy, [&]<class T>() {
        On(device, cpu::SwiGluGrad<T>, cuda::SwiGluGrad<T>)(device, gate.data<T>(), up.data<T>(),
                                                            dy.data<T>(), dy.numel(), TargetOf<T>(grads[0]),
                                                            TargetOf<T>(grads[1]));
      });
    });
  });
}

Var Add(const Var& a_var, const Var& b_var) {
  const Tensor& a = a_var.value();
  const Tensor& b = b_var.value();
  RequirePair(SameShape(a, b), "add", "a", a, "b", b, "one shape, dtype and device");
  const Tensor y = EmptyLike(a);
  Run("add", a, [&]<class T>() {
    On(*a.device(), cpu::Sum<T>, cuda::Sum<T>)(*a.device(), a.data<T>(), b.data<T>(), a.numel(), y.data<T>());
  });
  return Var::FromOp("add", y, {a_var, b_var}, [](OpGradient& op) {
    op.PassThrough(0);
    op.PassThrough(1);
  });
}

Var Scale(const Var& x_var, double factor) {
  const Tensor& x = x_var.value();
  Require(x.defined(), "scale: x is undefined");
  const Tensor y = EmptyLike(x);
  Run("scale", x, [&]<class T>() {
    On(*x.device(), cpu::Scaled<T>, cuda::Scaled<T>)(*x.device(), x.data<T>(), factor, x.numel(), y.data<T>(),
                                                     /*accumulate=*/false);
  });
  return Var::FromOp("scale", y, {x_var}, [factor](OpGradient& op) {
    const Tensor& dy = op.output_grad();
    op.Contribute(0, [&](const Tensor& dx, bool accumulate) {
      Run("scale", dy, [&]<class T>() {
        On(*dy.device(), cpu::Scaled<T>, cuda::Scaled<T>)(*dy.device(), dy.data<T>(), factor, dy.numel(),
                                                          dx.data<T>(), accumulate);
      });
    });
  });
}

Var CrossEntropy(const Var& logits_var, const Tensor& targets) {
  const Tensor logits = logits_var.value();
  RequirePair(logits.defined() && logits.rank() >= 1 && targets.defined() && targets.dtype() == DType::kI32 &&
                  targets.device() == logits.device() &&
                  targets.shape() == Shape(logits.shape().begin(), logits.shape().end() - 1),
              "cross_entropy", "logits", logits, "targets", targets,
              "(..., vocab) and i32 (...) on one device");
  const int64_t rows = targets.numel(), vocab = logits.dim(-1);
  Require(rows >= 1, "cross_entropy: logits ", Describe{logits}, " have no positions to average over");
  RequireIds("cross_entropy", "targets", targets, vocab);
  const Tensor log_sum_exp = Tensor::Empty(logits.device(), {rows}, WideDType(logits.dtype()));
  const Tensor loss = Tensor::Empty(logits.device(), {}, WideDType(logits.dtype()));
  Device& device = *logits.device();
  Run("cross_entropy", logits, [&]<class T>() {
    On(device, cpu::CrossEntropy<T>, cuda::CrossEntropy<T>)(device, logits.data<T>(), targets.data<int32_t>(),
                                                            rows, vocab, log_sum_exp.data<Wide<T>>(),
                                                            loss.data<Wide<T>>());
  });
  return Var::FromOp("cross_entropy", loss, {logits_var}, [=, &device](OpGradient& op) {
    const Tensor& dloss = op.output_grad();
    op.Contribute(0, [&](const Tensor& dlogits, bool accumulate) {
      Run("cross_entropy", logits, [&]<class T>() {
        On(device, cpu::CrossEntropyGrad<T>, cuda::CrossEntropyGrad<T>)(
            device, logits.data<T>(), targets.data<int32_t>(), log_sum_exp.data<Wide<T>>(),
            dloss.data<Wide<T>>(), rows, vocab, dlogits.data<T>(), accumulate);
      });
    });
  });
}

}  // namespace gradsync::model
