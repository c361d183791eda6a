#include <algorithm>
#include <cmath>

#include "base/visit.h"
#include "ops/common.h"
#include "ops/ml/ml.h"

namespace deepjit {

namespace {

template <typename F>
void visit_keys(DType dtype, F&& f) {
  if (dtype == DType::STRING) return f.template operator()<std::string>();
  if (dtype == DType::FLOAT32) return f.template operator()<float>();
  if (dtype == DType::FLOAT64) return f.template operator()<double>();
  visit_integer(dtype, "LabelEncoder", f);
}

const Tensor& tensor_attribute(const Attributes& attrs, const char* name) {
  const Tensor* tensor = attrs.get_tensor(name);
  if (tensor == nullptr) throw Error(Code::ATTRIBUTE, std::string("LabelEncoder: attribute ") + name + " is required");
  return *tensor;
}

void infer_label_encoder(InferContext& ctx) {
  const Tensor& keys = tensor_attribute(ctx.attrs(), "keys");
  const Tensor& values = tensor_attribute(ctx.attrs(), "values");
  const Tensor* fallback = ctx.attrs().get_tensor("fallback");
  if (keys.count() != values.count() || keys.dims().rank() != 1 || values.dims().rank() != 1) {
    throw Error(Code::ATTRIBUTE, "LabelEncoder: keys " + keys.dims().to_string() + " and values " +
                                     values.dims().to_string() + " must be two lists of one length");
  }
  if (fallback != nullptr && (fallback->dtype() != values.dtype() || fallback->count() != 1)) {
    throw Error(Code::ATTRIBUTE,
                "LabelEncoder: the default must be one element of type " + std::string(dtype_name(values.dtype())));
  }
  expect_type(ctx, "LabelEncoder", 0, ctx.dtype(0) == keys.dtype(), "of the keys' type");
  visit_keys(keys.dtype(), []<typename Key>() {});
  ctx.set_output(0, values.dtype(), ctx.shape(0));
}

// The place of `x` among `n` keys, or -1.
template <typename Key>
int64_t place_of(const Key* keys, int64_t n, const Key& x) {
  if constexpr (std::is_floating_point_v<Key>) {
    const bool nan_last = n > 0 && std::isnan(keys[n - 1]);
    if (std::isnan(x)) return nan_last ? n - 1 : -1;
    n -= nan_last;
  }
  const Key* found = std::lower_bound(keys, keys + n, x);
  return found != keys + n && *found == x ? found - keys : -1;
}

// The places of all elements; throws when one has none and needs one.
void find_places(const TensorView& x, const Tensor& keys, bool must, int64_t* places) {
  visit_keys(keys.dtype(), [&]<typename Key>() {
    for (int64_t i = 0, n = x.count(); i < n; ++i) {
      places[i] = place_of(keys.as<Key>(), keys.count(), x.as<Key>()[i]);
    }
  });
  const auto unknown = std::find(places, places + x.count(), -1);
  if (must && unknown != places + x.count()) {
    throw Error(Code::RUN_VALUE, "LabelEncoder: element " + std::to_string(unknown - places) + " is none of the " +
                                     std::to_string(keys.count()) + " known ones");
  }
}

template <typename T>
void pick(const int64_t* places, int64_t n, const T* values, const T* fallback, T* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = places[i] < 0 ? *fallback : values[places[i]];
}

void evaluate_label_encoder(EvalContext& ctx) {
  const TensorView& x = ctx.input(0);
  const Tensor& values = tensor_attribute(ctx.attrs(), "values");
  const Tensor* fallback = ctx.attrs().get_tensor("fallback");
  auto* places = static_cast<int64_t*>(ctx.scratch(static_cast<size_t>(x.count()) * sizeof(int64_t)));
  find_places(x, tensor_attribute(ctx.attrs(), "keys"), fallback == nullptr, places);
  const TensorView out = ctx.output(0, values.dtype(), x.dims);
  const auto run = [&]<typename T>() {
    pick(places, x.count(), values.as<T>(), fallback == nullptr ? nullptr : fallback->as<T>(), out.as<T>());
  };
  if (values.dtype() == DType::STRING) return run.template operator()<std::string>();
  visit_storage(values.dtype(), run);
}

}  // namespace

void add_label_encoder_op(OpRegistry& registry) {
  registry.add({.name = "deepjit.LabelEncoder", .infer = infer_label_encoder, .evaluate = evaluate_label_encoder});
}

}  // namespace deepjit
