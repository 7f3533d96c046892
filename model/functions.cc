#include "model/functions.h"

#include <stdexcept>
#include <string_view>
#include <utility>

#include "model/function_support.h"
#include "model/kernels/attention.h"
#include "model/kernels/embedding.h"
#include "model/kernels/gemm.h"
#include "model/kernels/loss.h"
#include "model/kernels/norm.h"
#include "model/kernels/rope.h"
#include "model/tensor/elementwise.h"

namespace gradsync::model {
namespace {

// Ids or targets, which an operation reads in both passes.
class Indices {
 public:
  // Throws InvalidInput, which names the first index that is not a row of a table. On CUDA indices are not
  // checked here, because reading them would make the host wait for the GPU; kernels report wrong indices
  // (CudaDevice).
  Indices(const char* op, const char* name, const Tensor& tensor, int64_t vocab)
      : op_(op), name_(name), tensor_(tensor), vocab_(vocab), version_(tensor.version()), hash_(Check()) {}

  // Returns the indices for the second pass. Throws std::logic_error, or InvalidInput as above, if they have
  // been written since the first pass.
  const Tensor& Unchanged() const {
    if (version_.changed() || Check() != hash_) {
      throw std::logic_error(Join("Backward: ", name_, " were changed after operation '", op_,
                                  "' had read them, and before its gradients were computed"));
    }
    return tensor_;
  }

 private:
  // Returns a hash: a write through a pointer does not change the version.
  uint64_t Check() const {
    if (!tensor_.device()->is_cpu()) return 0;
    const int32_t* const values = tensor_.data<int32_t>();
    uint64_t hash = 0;
    for (int64_t i = 0; i < tensor_.numel(); ++i) {
      Require(values[i] >= 0 && values[i] < vocab_, op_, ": ", name_, "[", i, "] is ", values[i],
              ", expected 0 to ", vocab_ - 1, " for a vocabulary of ", vocab_);
      hash = (hash ^ static_cast<uint64_t>(values[i])) * 0x9e3779b97f4a7c15u;
    }
    return hash;
  }

  const char* op_;
  const char* name_;
  Tensor tensor_;
  int64_t vocab_;
  Tensor::Version version_;
  uint64_t hash_;
};

// Returns the shape of num_heads adjacent heads in x (batch, seq, d_model).
kernels::HeadShape Heads(std::string_view op, std::string_view name, const Tensor& x, int64_t num_heads) {
  Require(x.defined() && x.rank() == 3, op, ": ", name, " is ", Describe{x},
          ", expected (batch, seq, d_model)");
  const int64_t d_model = x.dim(2);
  Require(num_heads >= 1 && d_model >= 1 && d_model % num_heads == 0, op, ": d_model ", d_model, " of ", name,
          " ", Describe{x}, " does not divide into ", num_heads, " heads");
  return {.batch = x.dim(0), .seq = x.dim(1), .num_heads = num_heads, .head_dim = d_model / num_heads};
}

void RequireLinear(std::string_view op, const Tensor& x, const Tensor& weight) {
  RequirePair(SameKind(x, weight) && x.rank() >= 1 && weight.rank() == 2 && x.dim(-1) == weight.dim(1), op,
              "x", x, "weight", weight, "(..., in) and (out, in) of one dtype and device");
}

Indices RequireEmbedding(const Tensor& ids, const Tensor& weight) {
  RequirePair(ids.defined() && ids.dtype() == DType::kI32 && weight.defined() && weight.rank() == 2 &&
                  ids.device() == weight.device(),
              "embedding", "ids", ids, "weight", weight, "i32 ids and a (vocab, d) weight on one device");
  return {"embedding", "ids", ids, weight.dim(0)};
}

void RequireRmsNorm(const Tensor& x, const Tensor& weight, double eps) {
  RequirePair(WideOfSameKind(x, weight) && x.rank() >= 1 && weight.rank() == 1 &&
                  x.dim(-1) == weight.dim(0) && weight.dim(0) >= 1,
              "rms_norm", "x", x, "weight", weight,
              "(..., d) and (d) of one dtype (for bf16: f32) and device, d at least 1");
  Require(eps >= 0, "rms_norm: eps is ", eps, ", expected at least 0");
}

Indices RequireCrossEntropy(const Tensor& logits, const Tensor& targets) {
  RequirePair(logits.defined() && logits.rank() >= 1 && targets.defined() && targets.dtype() == DType::kI32 &&
                  targets.device() == logits.device() &&
                  targets.shape() == Shape(logits.shape().begin(), logits.shape().end() - 1),
              "cross_entropy", "logits", logits, "targets", targets,
              "(..., vocab) and i32 (...) on one device");
  Require(targets.numel() >= 1, "cross_entropy: logits ", Describe{logits},
          " have no positions to average over");
  return {"cross_entropy", "targets", targets, logits.dim(-1)};
}

// A tensor (..., cols) as a matrix of its rows, or the transpose of this matrix.
struct Matrix {
  const Tensor& tensor;
  bool transposed = false;

  int64_t rows() const { return transposed ? tensor.dim(-1) : Rows(tensor); }
  int64_t cols() const { return transposed ? Rows(tensor) : tensor.dim(-1); }
  template <class T>
  kernels::Operand<T> operand() const {
    return {tensor.data<T>(), tensor.dim(-1), transposed};
  }
};

Matrix Transposed(const Tensor& x) { return {.tensor = x, .transposed = true}; }

// Computes y = a b, or y = addend + a b. A parameter's gradient may be f32 although a and b are bf16.
void Multiply(std::string_view op, const Matrix& a, const Matrix& b, const Grad& y,
              const Tensor& addend = {}) {
  const auto gemm = [&]<class T, class Y>() {
    return kernels::Gemm<T, Y>{.m = a.rows(),
                               .n = b.cols(),
                               .k = a.cols(),
                               .a = a.operand<T>(),
                               .b = b.operand<T>(),
                               .c = y,
                               .c_stride = b.cols(),
                               .addend = Data(addend)};
  };
  if (y.data.dtype() == WideDType(a.tensor.dtype())) {
    Run(op, a.tensor, [&]<class T>() { return gemm.template operator()<T, Wide<T>>(); });
  } else {
    Run(op, a.tensor, [&]<class T>() { return gemm.template operator()<T, T>(); });
  }
}

// Contributes to the gradients of x weight^T with respect to x, input 0, and weight, input 1: dweight = dy^T
// x, dx = dy weight.
void LinearGrad(const Tensor& x, const Tensor& weight, OpGradient& op) {
  const Tensor& dy = op.output_grad();
  op.Contribute(1, [&](const Grad& dweight) { Multiply(op.name(), Transposed(dy), {x}, dweight); });
  op.Contribute(0, [&](const Grad& dx) { Multiply(op.name(), {dy}, {weight}, dx); });
}

}  // namespace

Var Linear(const Var& x_var, const Var& weight_var) {
  const Tensor x = x_var.value(), weight = weight_var.value();
  RequireLinear("linear", x, weight);
  const Tensor y = EmptyWithLast(x, weight.dim(0));
  Multiply("linear", {x}, Transposed(weight), {.data = y});
  return Var::FromOp("linear", y, {x_var, weight_var}, [=](OpGradient& op) { LinearGrad(x, weight, op); });
}

Var AddLinear(const Var& addend_var, const Var& x_var, const Var& weight_var) {
  const Tensor addend = addend_var.value(), x = x_var.value(), weight = weight_var.value();
  RequireLinear("add_linear", x, weight);
  const Tensor y = EmptyWithLast(x, weight.dim(0));
  RequireSameShape("add_linear", "addend", addend, "x weight^T", y);
  Multiply("add_linear", {x}, Transposed(weight), {.data = y}, addend);
  return Var::FromOp("add_linear", y, {x_var, weight_var, addend_var}, [=](OpGradient& op) {
    LinearGrad(x, weight, op);
    op.PassThrough(2);
  });
}

Var Embedding(const Tensor& ids, const Var& weight_var) {
  const Tensor weight = weight_var.value();
  const Indices indices = RequireEmbedding(ids, weight);
  const int64_t n = ids.numel(), vocab = weight.dim(0), d = weight.dim(1);
  Shape shape = ids.shape();
  shape.push_back(d);
  const Tensor y = Tensor::Empty(weight.device(), std::move(shape), weight.dtype());
  Run("embedding", weight, [&]<class T>() {
    return kernels::Embedding<T>{
        .ids = Data(ids), .table = Data(weight), .n = n, .vocab = vocab, .d = d, .y = Data(y)};
  });
  return Var::FromOp("embedding", y, {weight_var}, [=](OpGradient& op) {
    const Tensor& dy = op.output_grad();
    const Tensor same_ids = indices.Unchanged();
    const auto grad = [&]<class T>(const Grad& dweight) {
      return kernels::EmbeddingGrad<T>{
          .ids = Data(same_ids), .dy = Data(dy), .n = n, .vocab = vocab, .d = d, .dtable = dweight};
    };
    // Touched rows are read after backward, when the ids may already have been overwritten by the next batch.
    Contribute(op, 0, dy, grad, same_ids.Clone());
  });
}

Var RmsNorm(const Var& x_var, const Var& weight_var, double eps) {
  const Tensor x = x_var.value(), weight = weight_var.value();
  RequireRmsNorm(x, weight, eps);
  const int64_t rows = Rows(x), d = weight.dim(0);
  const Tensor y = EmptyLike(x), r = Tensor::Empty(x.device(), {rows}, weight.dtype());
  Run("rms_norm", x, [&]<class T>() {
    return kernels::RmsNorm<T>{
        .x = Data(x), .weight = Data(weight), .rows = rows, .d = d, .eps = eps, .y = Data(y), .r = Data(r)};
  });
  return Var::FromOp("rms_norm", y, {x_var, weight_var}, [=](OpGradient& op) {
    const Tensor& dy = op.output_grad();
    Contribute(op, 1, dy, [&]<class T>(const Grad& dweight) {
      return kernels::RmsNormWeightGrad<T>{
          .x = Data(x), .r = Data(r), .dy = Data(dy), .rows = rows, .d = d, .dweight = dweight};
    });
    Contribute(op, 0, dy, [&]<class T>(const Grad& dx) {
      return kernels::RmsNormInputGrad<T>{
          .x = Data(x), .weight = Data(weight), .r = Data(r), .dy = Data(dy), .rows = rows, .d = d, .dx = dx};
    });
  });
}

Var Rope(const Var& x_var, int64_t num_heads, double theta) {
  const Tensor x = x_var.value();
  const kernels::HeadShape shape = Heads("rope", "x", x, num_heads);
  Require(shape.head_dim % 2 == 0, "rope: a head of x ", Describe{x}, " in ", num_heads, " heads has size ",
          shape.head_dim, ", expected an even one");
  Require(theta > 0, "rope: theta is ", theta, ", expected more than 0");
  const Tensor y = EmptyLike(x);
  Run("rope", x, [&]<class T>() {
    return kernels::Rope<T>{
        .shape = shape, .theta = theta, .inverse = false, .x = Data(x), .y = {.data = Data(y)}};
  });
  return Var::FromOp("rope", y, {x_var}, [shape, theta](OpGradient& op) {
    const Tensor& dy = op.output_grad();
    Contribute(op, 0, dy, [&]<class T>(const Grad& dx) {
      return kernels::Rope<T>{.shape = shape, .theta = theta, .inverse = true, .x = Data(dy), .y = dx};
    });
  });
}

Var CausalAttention(const Var& q_var, const Var& k_var, const Var& v_var, int64_t num_heads) {
  const Tensor q = q_var.value(), k = k_var.value(), v = v_var.value();
  const kernels::HeadShape shape = Heads("attention", "q", q, num_heads);
  RequireSameShape("attention", "q", q, "k", k);
  RequireSameShape("attention", "q", q, "v", v);
  const Tensor y = EmptyLike(q);
  const Tensor log_sum_exp =
      Tensor::Empty(q.device(), {shape.batch, num_heads, shape.seq}, WideDType(q.dtype()));
  Run("attention", q, [&]<class T>() {
    return kernels::CausalAttention<T>{.shape = shape,
                                       .q = Data(q),
                                       .k = Data(k),
                                       .v = Data(v),
                                       .out = Data(y),
                                       .log_sum_exp = Data(log_sum_exp)};
  });
  return Var::FromOp("attention", y, {q_var, k_var, v_var}, [=](OpGradient& op) {
    const Tensor& dy = op.output_grad();
    const bool shared = q.SameStorage(k) || q.SameStorage(v) || k.SameStorage(v);
    // With p = exp(scores - log_sum_exp), ds = p (dy v^T - sum of dy y):
    // dv = p^T dy, dq = ds k / sqrt(head_dim), dk = ds^T q / sqrt(head_dim)
    ContributeTogether<3>(op, shared, dy, [&]<class T>(const Grad& dq, const Grad& dk, const Grad& dv) {
      return kernels::CausalAttentionGrad<T>{.shape = shape,
                                             .q = Data(q),
                                             .k = Data(k),
                                             .v = Data(v),
                                             .out = Data(y),
                                             .log_sum_exp = Data(log_sum_exp),
                                             .dout = Data(dy),
                                             .dq = dq,
                                             .dk = dk,
                                             .dv = dv};
    });
  });
}

Var SwiGlu(const Var& gate_var, const Var& up_var) {
  const Tensor gate = gate_var.value(), up = up_var.value();
  RequireSameShape("swiglu", "gate", gate, "up", up);
  const int64_t n = gate.numel();
  const Tensor y = EmptyLike(gate);
  Run("swiglu", gate, [&]<class T>() {
    return kernels::SwiGlu<T>{.gate = Data(gate), .up = Data(up), .n = n, .y = Data(y)};
  });
  return Var::FromOp("swiglu", y, {gate_var, up_var}, [=](OpGradient& op) {
    const Tensor& dy = op.output_grad();
    const bool shared = gate.SameStorage(up);
    ContributeTogether<2>(op, shared, dy, [&]<class T>(const Grad& dgate, const Grad& dup) {
      return kernels::SwiGluGrad<T>{
          .gate = Data(gate), .up = Data(up), .dy = Data(dy), .n = n, .dgate = dgate, .dup = dup};
    });
  });
}

Var Scale(const Var& x_var, double factor) {
  const Tensor& x = x_var.value();
  Require(x.defined(), "scale: x is undefined");
  const int64_t n = x.numel();
  const Tensor y = EmptyLike(x);
  Run("scale", x, [&]<class T>() {
    return kernels::Scaled<T>{.x = Data(x), .factor = factor, .n = n, .y = {.data = Data(y)}};
  });
  return Var::FromOp("scale", y, {x_var}, [factor, n](OpGradient& op) {
    const Tensor& dy = op.output_grad();
    Contribute(op, 0, dy, [&]<class T>(const Grad& dx) {
      return kernels::Scaled<T>{.x = Data(dy), .factor = factor, .n = n, .y = dx};
    });
  });
}

Var CrossEntropy(const Var& logits_var, const Tensor& targets) {
  const Tensor logits = logits_var.value();
  const Indices indices = RequireCrossEntropy(logits, targets);
  const int64_t rows = targets.numel(), vocab = logits.dim(-1);
  const Tensor max = Tensor::Empty(logits.device(), {rows}, WideDType(logits.dtype()));
  const Tensor log_sum = Tensor::Empty(logits.device(), {rows}, WideDType(logits.dtype()));
  const Tensor loss = Tensor::Empty(logits.device(), {}, WideDType(logits.dtype()));
  Run("cross_entropy", logits, [&]<class T>() {
    return kernels::CrossEntropy<T>{.logits = Data(logits),
                                    .targets = Data(targets),
                                    .rows = rows,
                                    .vocab = vocab,
                                    .max = Data(max),
                                    .log_sum = Data(log_sum),
                                    .loss = Data(loss)};
  });
  return Var::FromOp("cross_entropy", loss, {logits_var}, [=](OpGradient& op) {
    const Tensor& dloss = op.output_grad();
    const Tensor same_targets = indices.Unchanged();
    Contribute(op, 0, logits, [&]<class T>(const Grad& dlogits) {
      return kernels::CrossEntropyGrad<T>{.logits = Data(logits),
                                          .targets = Data(same_targets),
                                          .max = Data(max),
                                          .log_sum = Data(log_sum),
                                          .dloss = Data(dloss),
                                          .rows = rows,
                                          .vocab = vocab,
                                          .dlogits = dlogits};
    });
  });
}

}  // namespace gradsync::model
