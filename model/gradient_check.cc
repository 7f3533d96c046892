#include "model/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <span>
#include <string>
#include <tuple>

#include "model/tensor/random.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::model {
namespace {

using Values = std::vector<double>;

double Norm(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

// Computes the gradients of `uses` times the sum of fn(inputs) . weights.
class Graph {
 public:
  Graph(const Function& fn, const std::vector<Tensor>& inputs, const Tensor& weights)
      : fn_(fn), weights_(weights) {
    for (const Tensor& input : inputs) {
      params_.emplace_back("input " + std::to_string(params_.size()), input);
      list_.push_back(&params_.back());
      list_.back()->grad();
    }
  }

  // Runs one backward pass. as_leaf(i) makes the variable with which the function is called for parameter i.
  std::vector<Values> Gradients(const std::function<Var(size_t)>& as_leaf, int uses = 1) {
    std::vector<Var> leaves;
    for (size_t i = 0; i < list_.size(); ++i) leaves.push_back(as_leaf(i));
    std::vector<Var> outputs;
    for (int use = 0; use < uses; ++use) outputs.push_back(fn_(leaves));
    Backward(Project(outputs, weights_), list_);
    std::vector<Values> grads;
    for (Parameter* param : list_) grads.push_back(param->grad().ToVector<double>());
    return grads;
  }

  // Removes the gradients and leaves NaN in their memory.
  void Reset() {
    for (Parameter* param : list_) {
      param->ResetGrad();
      double* grad = param->grad().data<double>();
      std::fill(grad, grad + param->numel(), std::numeric_limits<double>::quiet_NaN());
    }
    PoisonFreeMemory({weights_});
    for (Parameter* param : list_) PoisonFreeMemory({param->value()});
  }

  Parameter& param(size_t i) { return params_[i]; }

 private:
  const Function& fn_;
  const Tensor weights_;
  std::deque<Parameter> params_;
  std::vector<Parameter*> list_;
};

// Returns whether got = factor * want up to rounding.
testing::AssertionResult Near(const Values& got, const Values& want, double factor, const std::string& what) {
  const double tolerance = 1e-12 * (1 + Norm(want));
  for (size_t i = 0; i < want.size(); ++i) {
    // The comparison fails for NaN.
    if (!(std::abs(got[i] - factor * want[i]) <= tolerance)) {
      return testing::AssertionFailure()
             << what << ": element " << i << " is " << got[i] << ", expected " << factor * want[i];
    }
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult CheckCentralDifferences(const Function& fn, const std::vector<Tensor>& inputs,
                                                 const Tensor& weights, const std::vector<Values>& grads) {
  const double eps = std::numeric_limits<double>::epsilon();
  const auto loss = [&] {
    std::vector<Var> constants(inputs.begin(), inputs.end());
    return Project({fn(constants)}, weights).value().data<double>()[0];
  };
  double scale = 1;
  {
    const Values y = fn(std::vector<Var>(inputs.begin(), inputs.end())).value().ToVector<double>();
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += std::abs(y[i] * weights.data<double>()[i]);
    scale = std::max(scale, sum);
  }
  const double tolerance = 100 * std::pow(eps, 2.0 / 3) * scale;
  for (size_t input = 0; input < inputs.size(); ++input) {
    double* x = inputs[input].data<double>();
    for (int64_t i = 0; i < inputs[input].numel(); ++i) {
      const double before = x[i];
      const double h = std::cbrt(eps) * std::max(1.0, std::abs(before));
      x[i] = before + h;
      const double above = loss();
      x[i] = before - h;
      const double below = loss();
      x[i] = before;
      const double want = (above - below) / (2 * h);
      const double got = grads[input][static_cast<size_t>(i)];
      if (!(std::abs(got - want) <= tolerance)) {
        return testing::AssertionFailure()
               << "gradient of input " << input << ", element " << i << ", is " << got
               << ", central differences give " << want << " to within " << tolerance;
      }
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace

Var Project(const std::vector<Var>& outputs, const Tensor& weights) {
  Tensor loss;
  DispatchAnyFloat(weights.dtype(), "project", [&]<class T>() {
    const auto wide = [](T x) { return static_cast<double>(static_cast<Wide<T>>(x)); };
    const std::vector<T> w = weights.ToVector<T>();
    double sum = 0;
    for (const Var& output : outputs) {
      const std::vector<T> y = output.value().View(weights.shape()).ToVector<T>();
      for (size_t i = 0; i < w.size(); ++i) sum += wide(w[i]) * wide(y[i]);
    }
    const T value = static_cast<T>(static_cast<Wide<T>>(sum));
    loss = Tensor::From<T>(weights.device(), {}, std::span<const T>(&value, 1));
  });
  return Var::FromOp("project", loss, outputs, [weights, count = outputs.size()](OpGradient& op) {
    for (size_t i = 0; i < count; ++i) {
      op.Contribute(static_cast<int>(i),
                    [&](const Destination<Tensor>& grad) { Store(weights.View(grad.data.shape()), grad); });
    }
  });
}

Var Intermediate(const Var& x) {
  return Var::FromOp("intermediate", x.value().Clone(), {x}, [](OpGradient& op) {
    op.Contribute(0, [&](const Destination<Tensor>& grad) { Store(op.output_grad(), grad); });
  });
}

void PoisonFreeMemory(const std::vector<Tensor>& tensors) {
  constexpr int kBlocks = 4;
  std::vector<Tensor> blocks;
  for (const Tensor& tensor : tensors) {
    for (int i = 0; i < kBlocks; ++i) {
      blocks.push_back(Tensor::Empty(tensor.device(), tensor.shape(), tensor.dtype()));
      Fill(blocks.back(), std::numeric_limits<double>::quiet_NaN());
    }
  }
}

testing::AssertionResult CheckGradients(const Function& fn, const std::vector<Tensor>& inputs) {
  const Tensor output = fn(std::vector<Var>(inputs.begin(), inputs.end())).value();
  const Tensor weights = Tensor::Empty(output.device(), output.shape(), output.dtype());
  FillTruncatedNormal(weights, 1.0, /*seed=*/17, /*stream=*/0);
  Graph graph(fn, inputs, weights);
  const auto parameter = [&](size_t i) { return Var(graph.param(i)); };
  const auto intermediate = [&](size_t i) { return Intermediate(graph.param(i)); };

  graph.Reset();
  const std::vector<Values> grads = graph.Gradients(parameter);
  if (auto result = CheckCentralDifferences(fn, inputs, weights, grads); !result) return result;

  const std::vector<Values> added = graph.Gradients(parameter);
  graph.Reset();
  const std::vector<Values> through_values = graph.Gradients(intermediate);
  graph.Reset();
  const std::vector<Values> values_used_twice = graph.Gradients(intermediate, 2);
  graph.Reset();
  const std::vector<Values> parameters_used_twice = graph.Gradients(parameter, 2);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string input = "gradient of input " + std::to_string(i);
    for (const bool leaf : {true, false}) {
      graph.Reset();
      const std::vector<Values> alone = graph.Gradients([&](size_t j) {
        if (j != i) return Var(inputs[j]);
        return leaf ? parameter(j) : intermediate(j);
      });
      if (auto result = Near(alone[i], grads[i], 1, input + " with constants for the others"); !result)
        return result;
    }
    const std::tuple<const std::vector<Values>&, double, const char*> others[] = {
        {added, 2, ", added to an equal one"},
        {through_values, 1, " as an intermediate value"},
        {values_used_twice, 2, " as a value used twice"},
        {parameters_used_twice, 2, " used twice"}};
    for (const auto& [got, factor, how] : others) {
      if (auto result = Near(got[i], grads[i], factor, input + how); !result) return result;
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace gradsync::model
