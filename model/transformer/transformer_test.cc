#include "model/transformer/transformer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "model/base/test_errors.h"
#include "model/optimizer.h"
#include "model/transformer/test_transformer.h"

namespace gradsync::model {
namespace {

using testing::HasSubstr;

TEST(TransformerConfig, SizesOfTheNamedModels) {
  const auto numel = [](const char* name) { return NumParameters(TransformerByName(name)); };
  EXPECT_EQ(numel("tiny"), 9'316'608);
  EXPECT_EQ(numel("small"), 128'625'408);
  EXPECT_EQ(numel("medium"), 423'183'360);
  EXPECT_EQ(numel("large"), 969'411'840);
  EXPECT_EQ(numel("xl"), 1'998'235'200);
  EXPECT_EQ(numel("2.7b"), 3'406'809'600);
}

TEST(TransformerConfig, NamedModelsAreValid) {
  EXPECT_THAT(TransformerNames(), testing::ElementsAre("tiny", "small", "medium", "large", "xl", "2.7b"));
  for (const std::string& name : TransformerNames()) {
    const TransformerConfig config = TransformerByName(name);
    EXPECT_EQ(config.name, name);
    EXPECT_NO_THROW(Validate(config)) << name;
  }
}

TEST(TransformerConfig, UnknownNameListsTheKnownOnes) {
  EXPECT_EQ(ErrorOf([] { TransformerByName("huge"); }),
            "unknown model 'huge', expected one of tiny, small, medium, large, xl, 2.7b");
}

TEST(TransformerConfig, RefusesWhatCannotBeBuilt) {
  const auto error = [](const std::function<void(TransformerConfig&)>& change) {
    TransformerConfig config = TransformerByName("tiny");
    change(config);
    return ErrorOf([&] { Validate(config); });
  };
  using Config = TransformerConfig;
  EXPECT_EQ(error([](Config&) {}), "no error");
  EXPECT_EQ(error([](Config& c) { c.vocab_size = 0; }),
            "model 'tiny': vocab_size is 0, expected 1 to 2147483647");
  EXPECT_THAT(error([](Config& c) { c.vocab_size = int64_t{1} << 31; }),
              HasSubstr("vocab_size is 2147483648"));
  EXPECT_THAT(error([](Config& c) { c.context_length = 0; }), HasSubstr("context_length is 0"));
  EXPECT_THAT(error([](Config& c) { c.d_model = -4; }), HasSubstr("d_model is -4"));
  EXPECT_THAT(error([](Config& c) { c.d_ff = 0; }), HasSubstr("d_ff is 0"));
  EXPECT_THAT(error([](Config& c) { c.num_layers = 0; }), HasSubstr("num_layers is 0"));
  EXPECT_THAT(error([](Config& c) { c.num_heads = 0; }), HasSubstr("num_heads is 0"));
  EXPECT_EQ(error([](Config& c) { c.num_heads = 3; }),
            "model 'tiny': --d_model=256 is not a multiple of --num_heads=3");
  EXPECT_THAT(error([](Config& c) { c.num_heads = 256; }),
              HasSubstr("--d_model / --num_heads is 1, expected an even"));
  EXPECT_THAT(error([](Config& c) { c.d_model = int64_t{1} << 30; }),
              HasSubstr("parameters, expected at most 1e+12"));
  EXPECT_THAT(error([](Config& c) { c.num_layers = int64_t{1} << 30; }),
              HasSubstr("parameters, expected at most"));
}

// For rules that update whole matrices: neither the embedding nor the output layer.
TEST(Transformer, MatricesAreThoseOfLayers) {
  const Transformer model(MicroTransformer(), CpuDevice(), DType::kF32, 0);
  for (const Parameter* p : model.parameters()) {
    const bool is_of_layer = p->name().starts_with("layers.") && p->name().find("ln") == std::string::npos;
    EXPECT_EQ(IsMatrix(*p), is_of_layer) << p->name();
  }
}

// Together they are all parameters in forward order, and reads of one end when those of the next begin.
TEST(Transformer, UnitsAreReadOneAfterTheOther) {
  const TransformerConfig config = MicroTransformer();
  const DevicePtr device = CpuDevice();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Transformer model(config, device, dtype, 0);
    const std::vector<std::vector<Parameter*>> units = model.units();
    ASSERT_EQ(std::ssize(units), config.num_layers + 2);
    std::vector<Parameter*> all;
    std::vector<size_t> read;
    for (size_t u = 0; u < units.size(); ++u) {
      for (Parameter* const param : units[u]) {
        all.push_back(param);
        param->SetOnRead([&read, u] { read.push_back(u); });
      }
    }
    EXPECT_TRUE(std::ranges::equal(all, model.parameters()));
    const Var loss = model.Loss(RandomTokens(device, config, 1, 3, 0));
    EXPECT_EQ(read.size(), all.size());
    EXPECT_TRUE(std::ranges::is_sorted(read));
    const auto unit_of = [&](const Parameter& p) {
      return std::ranges::find_if(
                 units, [&](const auto& unit) { return std::ranges::find(unit, &p) != unit.end(); }) -
             units.begin();
    };
    std::vector<int64_t> used;
    Backward(loss, model.parameters(), {}, [&](const Parameter& p) { used.push_back(unit_of(p)); });
    EXPECT_EQ(used.size(), all.size());
    EXPECT_TRUE(std::ranges::is_sorted(used, std::greater()));
  }
}

TEST(Transformer, CountsAgreeWithTheClosedForm) {
  for (const TransformerConfig& config : {MicroTransformer(), TransformerByName("tiny")}) {
    const Transformer model(config, CpuDevice(), DType::kF32, 0);
    int64_t numel = 0;
    for (const Parameter* p : model.parameters()) numel += p->numel();
    EXPECT_EQ(numel, NumParameters(config)) << config.name;
    EXPECT_EQ(model.parameters().size(), static_cast<size_t>(3 + 9 * config.num_layers)) << config.name;
  }
}

TEST(Transformer, InitialValues) {
  const Transformer model(TransformerByName("tiny"), CpuDevice(), DType::kF32, 5);
  std::set<float> firsts;
  for (const Parameter* p : model.parameters()) {
    const std::vector<float> values = p->value().ToVector<float>();
    const auto [min, max] = std::minmax_element(values.begin(), values.end());
    if (p->value().rank() == 1) {
      EXPECT_EQ(*min, 1) << p->name();
      EXPECT_EQ(*max, 1) << p->name();
      continue;
    }
    double sum = 0, squares = 0;
    for (const float v : values) {
      sum += v;
      squares += double{v} * v;
    }
    const double n = static_cast<double>(values.size());
    const bool embedding = p->name() == "token_embeddings.weight";
    const double sigma =
        embedding ? 1 : std::sqrt(2.0 / static_cast<double>(p->value().dim(0) + p->value().dim(1)));
    // Cutting off at 3 sigma leaves 0.98658 of the standard deviation.
    EXPECT_NEAR(sum / n, 0, 5 * sigma / std::sqrt(n)) << p->name();
    EXPECT_NEAR(std::sqrt(squares / n), 0.98658 * sigma, 5 * sigma / std::sqrt(2 * n)) << p->name();
    EXPECT_LE(std::max(-*min, *max), static_cast<float>(3 * sigma)) << p->name();
    EXPECT_TRUE(firsts.insert(values[0] / static_cast<float>(sigma)).second)
        << p->name() << " has a stream in use";
  }
}

TEST(Transformer, SameSeedSameWeights) {
  const TransformerConfig config = MicroTransformer();
  const Transformer a(config, CpuDevice(1), DType::kF32, 7), b(config, CpuDevice(3), DType::kF32, 7);
  const Transformer wide(config, CpuDevice(), DType::kF64, 7), other(config, CpuDevice(), DType::kF32, 8);
  for (size_t i = 0; i < a.parameters().size(); ++i) {
    const std::vector<float> values = a.parameters()[i]->value().ToVector<float>();
    EXPECT_EQ(values, b.parameters()[i]->value().ToVector<float>());
    EXPECT_EQ(std::vector<double>(values.begin(), values.end()),
              wide.parameters()[i]->value().ToVector<double>());
    if (a.parameters()[i]->value().rank() == 1) continue;
    EXPECT_NE(values, other.parameters()[i]->value().ToVector<float>());
  }
}

TEST(Transformer, RefusesWhatDoesNotFit) {
  const TransformerConfig config = MicroTransformer();
  const DevicePtr device = CpuDevice();
  Transformer model(config, device, DType::kF32, 0);
  const auto error = [&](const Tensor& ids) { return ErrorOf([&] { model.Logits(ids); }); };
  EXPECT_EQ(error(Tensor::Zeros(device, {1, 7}, DType::kI32)),
            "model 'micro': a sequence of 7 tokens, the context length is 6");
  EXPECT_THAT(error(Tensor::Zeros(device, {6}, DType::kI32)),
              HasSubstr("inputs have shape (6), expected (batch, seq)"));
  EXPECT_THAT(error(Tensor::Zeros(device, {1, 6}, DType::kI64)), HasSubstr("ids is (1, 6) i64"));
  EXPECT_THAT(error(Tensor()), HasSubstr("inputs have shape ()"));
  const std::vector<int32_t> ids{0, 11};
  EXPECT_THAT(error(Tensor::From<int32_t>(device, {1, 2}, ids)), HasSubstr("ids[1] is 11, expected 0 to 10"));
  Batch batch = RandomTokens(device, config, 2, 6, 0);
  batch.targets = Tensor::Zeros(device, {2, 5}, DType::kI32);
  EXPECT_THROW(model.Loss(batch), InvalidInput);

  EXPECT_THROW(Transformer(config, device, DType::kI32, 0), InvalidInput);
  TransformerConfig odd = config;
  odd.num_heads = 3;
  EXPECT_THROW(Transformer(odd, device, DType::kF32, 0), InvalidInput);
}

}  // namespace
}  // namespace gradsync::model
