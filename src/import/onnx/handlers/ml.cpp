// ai.onnx.ml: scaling, encoding and linear models, as tensor operators.
#include "import/onnx/handlers/ml.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "import/onnx/handlers/arithmetic.h"
#include "import/onnx/tensor.h"

namespace deepjit::importer {

namespace {

Tensor floats(const std::vector<float>& values) {
  return Tensor::from<float>(DType::FLOAT32, {static_cast<int64_t>(values.size())}, std::span(values));
}

Attributes with_axis(int64_t axis) {
  Attributes attrs;
  attrs.set("axis", axis);
  return attrs;
}

int require_rank(const Value* value) {
  const std::optional<int> rank = rank_of(value);
  if (!rank) throw Error(Code::UNSUPPORTED_OP, "an input of unknown rank is not supported");
  return *rank;
}

// The input as float32, which most of these operators compute in.
Value* float_input(NodeImport& node) { return Arithmetic(node, nullptr).cast(node.require_input(0), DType::FLOAT32); }

// ---- element by element ---------------------------------------------------------------------------

void binarizer(NodeImport& node) {
  Value* x = node.require_input(0);
  double threshold = node.attrs.get_float("threshold", 0);
  if (!is_float(dtype_of(x))) threshold = std::clamp(std::floor(threshold), -0x1p62, 0x1p62);
  node.define(0, "CastLike", {Arithmetic(node, x).greater(x, threshold), x});
}

void array_feature_extractor(NodeImport& node) {
  Value* x = node.require_input(0);
  Value* flat = node.emit("Reshape", {node.require_input(1), node.ints({-1})});
  if (require_rank(x) > 1) return node.define(0, "Gather", {x, flat}, with_axis(-1));
  Value* picked = node.emit("Gather", {x, flat}, with_axis(-1));
  node.define(0, "Unsqueeze", {picked, node.ints({0})});
}

void scaler(NodeImport& node) {
  Value* x = float_input(node);
  const std::vector<float> offset = node.attrs.get_floats("offset");
  const std::vector<float> scale = node.attrs.get_floats("scale");
  if (!offset.empty()) x = node.emit("Sub", {x, node.constant(floats(offset))});
  if (!scale.empty()) x = node.emit("Mul", {x, node.constant(floats(scale))});
  node.define(0, "Identity", {x});
}

void imputer(NodeImport& node) {
  Value* x = node.require_input(0);
  const bool real = is_float(dtype_of(x));
  const char* name = real ? "imputed_value_floats" : "imputed_value_int64s";
  if (!node.attrs.has(name)) throw Error(Code::ATTRIBUTE, std::string("attribute ") + name + " is required");
  const double replaced = real ? static_cast<double>(node.attrs.get_float("replaced_value_float", 0))
                               : static_cast<double>(node.attrs.get_int("replaced_value_int64", 0));
  const Arithmetic m(node, x);
  Value* missing = std::isnan(replaced) ? node.emit("IsNaN", {x}) : node.emit("Equal", {x, m.number(replaced)});
  Value* imputed = real ? node.constant(floats(node.attrs.get_floats(name))) : node.ints(node.attrs.get_ints(name));
  node.define(0, "Where", {missing, m.cast(imputed, dtype_of(x)), x});
}

// A row whose divisor is zero stays as it is.
void normalizer(NodeImport& node) {
  Value* x = float_input(node);
  const std::string norm = node.attrs.get_string("norm", "MAX");
  const char* op = norm == "MAX" ? "ReduceMax" : norm == "L1" ? "ReduceL1" : norm == "L2" ? "ReduceL2" : nullptr;
  if (op == nullptr) throw Error(Code::ATTRIBUTE, "norm must be MAX, L1 or L2, got \"" + norm + "\"");
  const Arithmetic m(node, x);
  Value* divisor = m.reduce(op, x);
  Value* zero = node.emit("Equal", {divisor, m.number(0)});
  node.define(0, "Div", {x, m.where(zero, m.number(1), divisor)});
}

// ---- labels ---------------------------------------------------------------------------------------

// Is a before b? NaN is behind everything.
template <typename T>
bool before(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(b) && !std::isnan(a);
  }
  return a < b;
}

// The order of the keys, ascending; of equal ones only the last stays.
template <typename T>
std::vector<int64_t> key_order(const Tensor& keys) {
  const T* k = keys.as<T>();
  std::vector<int64_t> order(static_cast<size_t>(keys.count()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return before(k[a], k[b]); });
  std::vector<int64_t> kept;
  for (int64_t i : order) {
    if (!kept.empty() && !before(k[kept.back()], k[i])) kept.pop_back();
    kept.push_back(i);
  }
  return kept;
}

std::vector<int64_t> key_order(const Tensor& keys) {
  switch (keys.dtype()) {
    case DType::STRING:
      return key_order<std::string>(keys);
    case DType::FLOAT32:
      return key_order<float>(keys);
    case DType::FLOAT64:
      return key_order<double>(keys);
    case DType::INT64:
      return key_order<int64_t>(keys);
    case DType::INT32:
      return key_order<int32_t>(keys);
    case DType::INT16:
      return key_order<int16_t>(keys);
    default:
      throw Error(Code::TYPE, "keys of type " + std::string(dtype_name(keys.dtype())) + " are not supported");
  }
}

Tensor picked(const Tensor& from, const std::vector<int64_t>& order) {
  Tensor out(from.dtype(), {static_cast<int64_t>(order.size())});
  const size_t size = dtype_size(from.dtype());
  for (size_t i = 0; i < order.size(); ++i) {
    const auto at = static_cast<size_t>(order[i]);
    if (from.dtype() == DType::STRING) {
      out.as<std::string>()[i] = from.as<std::string>()[at];
    } else {
      std::memcpy(out.as<char>() + i * size, from.as<char>() + at * size, size);
    }
  }
  return out;
}

Tensor strings(const std::vector<std::string>& values) {
  return Tensor::from<std::string>(DType::STRING, {static_cast<int64_t>(values.size())}, std::span(values));
}

Tensor one_string(const std::string& value) { return strings({value}); }
Tensor one_int(int64_t value) { return Tensor::vector_i64(std::span(&value, 1)); }

Tensor numbers_to(int64_t n) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return Tensor::vector_i64(out);
}

// "keys_" or "values_" in whichever form it is given.
Tensor list_attribute(const NodeImport& node, const std::string& prefix) {
  const Attributes& attrs = node.attrs;
  if (const Tensor* tensor = attrs.get_tensor(prefix + "tensor")) return *tensor;
  if (attrs.has(prefix + "strings")) return strings(attrs.get_strings(prefix + "strings"));
  if (attrs.has(prefix + "int64s")) return Tensor::vector_i64(attrs.get_ints(prefix + "int64s"));
  if (attrs.has(prefix + "floats")) return floats(attrs.get_floats(prefix + "floats"));
  throw Error(Code::ATTRIBUTE, "one of the attributes " + prefix + "* is required");
}

Tensor default_label(const NodeImport& node, DType dtype) {
  if (const Tensor* tensor = node.attrs.get_tensor("default_tensor")) return *tensor;
  if (dtype == DType::STRING) return one_string(node.attrs.get_string("default_string", "_Unused"));
  if (is_float(dtype)) return scalar_of(dtype, node.attrs.get_float("default_float", -0.0f));
  return scalar_of(dtype, static_cast<double>(node.attrs.get_int("default_int64", -1)));
}

// Version 1 maps between strings and their places in one list.
Value* label_encoder_1(NodeImport& node, Value* x) {
  const Tensor classes = strings(node.attrs.get_strings("classes_strings"));
  const Tensor places = numbers_to(classes.count());
  if (dtype_of(x) == DType::STRING) {
    return emit_label_encoder(node, x, classes, places, one_int(node.attrs.get_int("default_int64", -1)));
  }
  return emit_label_encoder(node, x, places, classes, one_string(node.attrs.get_string("default_string", "_Unused")));
}

void label_encoder(NodeImport& node) {
  Value* x = node.require_input(0);
  Value* y = nullptr;
  if (node.version < 2) {
    y = label_encoder_1(node, x);
  } else {
    const Tensor values = list_attribute(node, "values_");
    y = emit_label_encoder(node, x, list_attribute(node, "keys_"), values, default_label(node, values.dtype()));
  }
  node.define(0, "Identity", {y});
}

// Strings to numbers, or back, by two lists.
void category_mapper(NodeImport& node) {
  Value* x = node.require_input(0);
  const Tensor names = strings(node.attrs.get_strings("cats_strings"));
  const Tensor numbers = Tensor::vector_i64(node.attrs.get_ints("cats_int64s"));
  const bool text = dtype_of(x) == DType::STRING;
  const Tensor fallback = text ? one_int(node.attrs.get_int("default_int64", -1))
                               : one_string(node.attrs.get_string("default_string", "_Unused"));
  node.define(0, "Identity", {emit_label_encoder(node, x, text ? names : numbers, text ? numbers : names, fallback)});
}

// Features side by side, as float32.
void feature_vectorizer(NodeImport& node) {
  std::vector<Value*> columns;
  for (size_t i = 0; i < node.input_count(); ++i) {
    Value* x = node.require_input(i);
    if (require_rank(x) == 1) x = node.emit("Unsqueeze", {x, node.ints({0})});
    columns.push_back(Arithmetic(node, x).cast(x, DType::FLOAT32));
  }
  if (columns.empty()) throw Error(Code::ARITY, "input 0 is required");
  node.define(0, "Concat", columns, with_axis(1));
}

void zip_map(NodeImport&) {
  throw Error(Code::UNSUPPORTED_OP,
              "sequences of maps do not exist here; convert the model without them "
              "(skl2onnx: options={'zipmap': False})");
}

void one_hot_encoder(NodeImport& node) {
  Value* x = node.require_input(0);
  const bool text = node.attrs.has("cats_strings");
  const Tensor keys =
      text ? strings(node.attrs.get_strings("cats_strings")) : Tensor::vector_i64(node.attrs.get_ints("cats_int64s"));
  const int64_t n = keys.count();
  if (!text) x = Arithmetic(node, x).cast(x, DType::INT64);
  // A place behind the last gives a row of zeros.
  const Tensor fallback = node.attrs.get_int("zeros", 1) != 0 ? one_int(n) : Tensor();
  Value* places = emit_label_encoder(node, x, keys, numbers_to(n), fallback);
  Value* depth = node.constant(one_int(n).reshaped({}));
  node.define(0, "OneHot", {places, depth, node.constant(floats({0, 1}))}, with_axis(-1));
}

// ---- linear models --------------------------------------------------------------------------------

// x[N, F] times the coefficients of `count` targets, plus intercepts: [N, count].
Value* linear(NodeImport& node, int64_t count) {
  Value* x = float_input(node);
  const std::vector<float> coefficients = node.attrs.get_floats("coefficients");
  const std::vector<float> intercepts = node.attrs.get_floats("intercepts");
  const auto total = static_cast<int64_t>(coefficients.size());
  if (count <= 0 || total % count != 0) {
    throw Error(Code::ATTRIBUTE, std::to_string(total) + " coefficients for " + std::to_string(count) + " targets");
  }
  const int64_t features = total / count;
  if (require_rank(x) == 1) x = node.emit("Unsqueeze", {x, node.ints({0})});
  Tensor weights(DType::FLOAT32, {features, count});
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t f = 0; f < features; ++f) {
      weights.as<float>()[f * count + k] = coefficients[static_cast<size_t>(k * features + f)];
    }
  }
  Value* y = node.emit("MatMul", {x, node.constant(weights)});
  if (intercepts.empty()) return y;
  if (static_cast<int64_t>(intercepts.size()) != count) {
    throw Error(Code::ATTRIBUTE,
                std::to_string(intercepts.size()) + " intercepts for " + std::to_string(count) + " targets");
  }
  return node.emit("Add", {y, node.constant(floats(intercepts))});
}

void linear_regressor(NodeImport& node) {
  Value* y = linear(node, node.attrs.get_int("targets", 1));
  node.define(0, "Identity", {post_transform(node, y, node.attrs.get_string("post_transform", "NONE"))});
}

void linear_classifier(NodeImport& node) {
  const Tensor labels = class_labels(node, "classlabels_strings", "classlabels_ints");
  const auto given = static_cast<int64_t>(node.attrs.get_floats("intercepts").size());
  const int64_t count = given > 0 ? given : labels.count();
  Value* scores = linear(node, count);
  if (count == 1 && labels.count() == 2) return define_two_classes(node, scores, 0, true, labels);
  if (count != labels.count()) throw Error(Code::ATTRIBUTE, "the number of labels does not fit the number of classes");
  Attributes top = with_axis(-1);
  top.set("keepdims", int64_t{0});
  Value* index = node.emit("ArgMax", {scores}, top);
  define_classes(node, index, labels, post_transform(node, scores, node.attrs.get_string("post_transform", "NONE")));
}

// ---- transforms of scores -------------------------------------------------------------------------

// Softmax over the scores that are not zero; zeros stay.
Value* softmax_zero(NodeImport& node, Value* scores) {
  const Arithmetic m(node, scores);
  Value* grown = m.exp(m.sub(scores, m.reduce("ReduceMax", scores)));
  Value* kept = m.where(m.greater(node.emit("Abs", {scores}), 1e-7), grown, m.number(0));
  return m.div(kept, m.reduce("ReduceSum", kept));
}

// The inverse of the normal distribution, by the approximation of the inverse error function that ONNX Runtime uses.
Value* probit(NodeImport& node, Value* scores) {
  const Arithmetic m(node, scores);
  constexpr double kA = 0.147;
  constexpr double kPi = 3.14159265358979;
  Value* z = m.add(m.mul(scores, 2), -1);
  Value* log = node.emit("Log", {m.mul(m.one_minus(z), m.add(z, 1))});
  Value* v = m.add(m.mul(log, 0.5), 2 / (kPi * kA));
  Value* root = m.sqrt(m.sub(m.mul(v, v), m.mul(log, 1 / kA)));
  return m.mul(m.mul(node.emit("Sign", {z}), m.sqrt(m.sub(root, v))), std::sqrt(2.0));
}

}  // namespace

Value* post_transform(NodeImport& node, Value* scores, const std::string& name) {
  if (name == "NONE") return scores;
  if (name == "SOFTMAX") return node.emit("Softmax", {scores}, with_axis(-1));
  if (name == "LOGISTIC") return node.emit("Sigmoid", {scores});
  if (name == "SOFTMAX_ZERO") return softmax_zero(node, scores);
  if (name == "PROBIT") return probit(node, scores);
  throw Error(Code::ATTRIBUTE, "post_transform is \"" + name + "\"");
}

Tensor class_labels(const NodeImport& node, const char* strings_name, const char* ints_name) {
  Tensor labels = node.attrs.has(strings_name) ? strings(node.attrs.get_strings(strings_name))
                                               : Tensor::vector_i64(node.attrs.get_ints(ints_name));
  if (labels.count() == 0) throw Error(Code::ATTRIBUTE, "there are no class labels");
  return labels;
}

void define_classes(NodeImport& node, Value* index, const Tensor& labels, Value* scores) {
  Value* label = emit_label_encoder(node, index, numbers_to(labels.count()), labels, Tensor());
  node.define(0, "Identity", {label});
  node.define(1, "Identity", {scores});
}

void define_two_classes(NodeImport& node, Value* score, double threshold, bool complement, const Tensor& labels) {
  const Arithmetic m(node, score);
  Value* second = m.cast(m.greater(score, threshold), DType::INT64);
  Value* index = node.emit("Squeeze", {second, node.ints({1})});
  const std::string transform = node.attrs.get_string("post_transform", "NONE");
  if (transform == "PROBIT") throw Error(Code::UNSUPPORTED_OP, "PROBIT of two classes with one score");
  const bool logistic = transform == "LOGISTIC";
  Value* first = complement && !logistic ? m.one_minus(score) : node.emit("Neg", {score});
  Value* both = node.emit("Concat", {first, score}, with_axis(1));
  define_classes(node, index, labels, logistic ? node.emit("Sigmoid", {both}) : both);
}

Value* emit_label_encoder(NodeImport& node, Value* x, const Tensor& keys, const Tensor& values,
                          const Tensor& fallback) {
  if (keys.dims().rank() != 1 || values.count() != keys.count()) {
    throw Error(Code::ATTRIBUTE, std::to_string(keys.count()) + " keys and " + std::to_string(values.count()) +
                                     " values: there must be as many, in lists");
  }
  const std::vector<int64_t> order = key_order(keys);
  Attributes attrs;
  attrs.set("keys", picked(keys, order));
  attrs.set("values", picked(values, order));
  if (fallback.defined()) attrs.set("fallback", fallback);
  return node.emit("deepjit.LabelEncoder", {x}, attrs);
}

void add_ml_handlers(HandlerMap& map) {
  map["ai.onnx.ml.ArrayFeatureExtractor"] = array_feature_extractor;
  map["ai.onnx.ml.Binarizer"] = binarizer;
  map["ai.onnx.ml.CategoryMapper"] = category_mapper;
  map["ai.onnx.ml.FeatureVectorizer"] = feature_vectorizer;
  map["ai.onnx.ml.Imputer"] = imputer;
  map["ai.onnx.ml.LabelEncoder"] = label_encoder;
  map["ai.onnx.ml.LinearClassifier"] = linear_classifier;
  map["ai.onnx.ml.LinearRegressor"] = linear_regressor;
  map["ai.onnx.ml.Normalizer"] = normalizer;
  map["ai.onnx.ml.OneHotEncoder"] = one_hot_encoder;
  map["ai.onnx.ml.Scaler"] = scaler;
  map["ai.onnx.ml.ZipMap"] = zip_map;
}

}  // namespace deepjit::importer
