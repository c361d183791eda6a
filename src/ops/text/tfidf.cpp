// TfIdfVectorizer: counts the n-grams of a pool in rows of words or numbers.
#include <algorithm>
#include <map>

#include "ops/common.h"
#include "ops/text/text.h"

namespace deepjit {

namespace {

// The pool as a tree: a path of n items from the root is an n-gram.
template <typename T>
struct Grams {
  std::map<T, Grams> next;
  int64_t id = -1;  // which n-gram ends here
};

struct Settings {
  int64_t shortest = 0, longest = 0, skips = 0;
  std::vector<int64_t> counts;   // where in the pool the n-grams of each length start
  std::vector<int64_t> indexes;  // per n-gram, its place in the output
  std::vector<float> weights;
  bool use_counts = true;
  bool use_weights = false;
  int64_t width = 0;
};

[[noreturn]] void bad_attribute(const std::string& what) { throw Error(Code::ATTRIBUTE, "TfIdfVectorizer: " + what); }

// Starts of the n-grams of each length, as (start, end, length).
struct Section {
  size_t start, end, length;
};

std::vector<Section> sections(const Settings& s, size_t pool) {
  std::vector<Section> out;
  for (size_t i = 0; i < s.counts.size(); ++i) {
    const int64_t start = s.counts[i];
    const int64_t end = i + 1 < s.counts.size() ? s.counts[i + 1] : static_cast<int64_t>(pool);
    if (start < 0 || end < start || end > static_cast<int64_t>(pool)) bad_attribute("ngram_counts do not fit the pool");
    if ((end - start) % static_cast<int64_t>(i + 1) != 0) {
      bad_attribute("the pool holds no whole number of " + std::to_string(i + 1) + "-grams");
    }
    out.push_back({static_cast<size_t>(start), static_cast<size_t>(end), i + 1});
  }
  return out;
}

size_t pool_size(const Attributes& attrs) {
  return attrs.has("pool_strings") ? attrs.get_strings("pool_strings").size() : attrs.get_ints("pool_int64s").size();
}

Settings settings_of(const Attributes& attrs) {
  Settings s;
  s.shortest = attrs.require_int("min_gram_length");
  s.longest = attrs.require_int("max_gram_length");
  s.skips = attrs.require_int("max_skip_count");
  s.counts = attrs.get_ints("ngram_counts");
  s.indexes = attrs.get_ints("ngram_indexes");
  s.weights = attrs.get_floats("weights");
  const std::string mode = attrs.get_string("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") bad_attribute("mode \"" + mode + "\" is unknown");
  s.use_counts = mode != "IDF";
  s.use_weights = mode != "TF" && !s.weights.empty();
  if (s.shortest < 1 || s.longest < s.shortest) bad_attribute("the lengths of n-grams are out of order");
  if (s.skips < 0) bad_attribute("max_skip_count is negative");
  if (s.indexes.empty() || s.counts.empty()) bad_attribute("ngram_counts and ngram_indexes must not be empty");
  if (attrs.has("pool_strings") == attrs.has("pool_int64s")) {
    bad_attribute("one of pool_strings and pool_int64s must be given");
  }
  if (s.longest > static_cast<int64_t>(s.counts.size())) bad_attribute("max_gram_length is above what the pool holds");
  size_t grams = 0;
  for (const Section& section : sections(s, pool_size(attrs))) grams += (section.end - section.start) / section.length;
  if (grams != s.indexes.size()) bad_attribute("ngram_indexes must have one entry for each n-gram");
  for (int64_t index : s.indexes) {
    if (index < 0 || index >= (int64_t{1} << 31)) bad_attribute("an entry of ngram_indexes is out of range");
    s.width = std::max(s.width, index + 1);
  }
  if (!s.weights.empty() && s.weights.size() != s.indexes.size()) {
    bad_attribute("weights must have one entry for each n-gram");
  }
  // ONNX's text gives a weight to each n-gram, its reference and the runtimes to each place of the output. The two
  // agree where ngram_indexes counts up; elsewhere models mean what runs.
  if (s.use_weights && s.width > static_cast<int64_t>(s.weights.size())) {
    bad_attribute("an entry of ngram_indexes has no weight");
  }
  return s;
}

template <typename T>
Grams<T> tree_of(const Settings& s, const std::vector<T>& pool) {
  Grams<T> root;
  int64_t id = 0;
  for (const Section& section : sections(s, pool.size())) {
    const auto length = static_cast<int64_t>(section.length);
    for (size_t at = section.start; at < section.end; at += section.length, ++id) {
      if (length < s.shortest || length > s.longest) continue;
      Grams<T>* node = &root;
      for (size_t k = 0; k < section.length; ++k) node = &node->next[pool[at + k]];
      if (node->id < 0) node->id = id;
    }
  }
  return root;
}

// Calls found(id) for each n-gram of the row. Single items do not depend on the distance and count once.
template <typename T, typename Item, typename F>
void find_grams(const Grams<T>& root, const Settings& s, const Item* row, int64_t length, F&& found) {
  for (int64_t skipped = 0; skipped <= std::min(s.skips, length - 1); ++skipped) {
    const int64_t distance = skipped + 1;
    const int64_t shortest = distance == 1 ? s.shortest : std::max<int64_t>(s.shortest, 2);
    if (shortest > s.longest) return;
    for (int64_t start = 0; start < length; ++start) {
      const Grams<T>* node = &root;
      int64_t at = start;
      for (int64_t n = 1; n <= s.longest && at < length; ++n, at += distance) {
        const auto next = node->next.find(static_cast<const T&>(row[at]));
        if (next == node->next.end()) break;
        node = &next->second;
        if (n >= shortest && node->id >= 0) found(node->id);
      }
    }
    if (distance > length) return;  // no pair of items is that far apart
  }
}

void infer_tfidf(InferContext& ctx) {
  const DType dtype = ctx.dtype(0);
  expect_type(ctx, "TfIdfVectorizer", 0, dtype == DType::STRING || dtype == DType::INT32 || dtype == DType::INT64,
              "string, int32 or int64");
  const Settings s = settings_of(ctx.attrs());
  if ((dtype == DType::STRING) != ctx.attrs().has("pool_strings")) {
    throw Error(Code::TYPE, "TfIdfVectorizer: the pool's type is not the input's");
  }
  const Shape& in = ctx.shape(0);
  if (!in.ranked()) return ctx.set_output(0, DType::FLOAT32, Shape());
  if (in.rank() > 2)
    throw Error(Code::SHAPE_MISMATCH, "TfIdfVectorizer: rank must be 0, 1 or 2, got " + in.to_string());
  std::vector<Dim> dims;
  if (in.rank() == 2) dims.push_back(in[0]);
  dims.emplace_back(s.width);
  ctx.set_output(0, DType::FLOAT32, Shape(std::move(dims)));
}

template <typename T, typename Item>
void count_rows(EvalContext& ctx, const Settings& s, const std::vector<T>& pool) {
  const TensorView& in = ctx.input(0);
  const bool rows = in.dims.rank() == 2;
  const int64_t batch = rows ? in.dims[0] : 1;
  const int64_t length = in.dims.rank() == 0 ? 1 : in.dims.back();
  const TensorView out = ctx.output(0, DType::FLOAT32, rows ? Dims{batch, s.width} : Dims{s.width});
  std::fill_n(out.as<float>(), out.count(), 0.0f);
  const Grams<T> root = tree_of(s, pool);
  for (int64_t b = 0; b < batch; ++b) {
    float* to = out.as<float>() + b * s.width;
    find_grams(root, s, in.as<Item>() + b * length, length, [&](int64_t id) {
      float& place = to[s.indexes[static_cast<size_t>(id)]];
      place = s.use_counts ? place + 1 : 1;
    });
    for (int64_t i = 0; s.use_weights && i < s.width; ++i) to[i] *= s.weights[static_cast<size_t>(i)];
  }
}

void evaluate_tfidf(EvalContext& ctx) {
  const Settings s = settings_of(ctx.attrs());
  const Attributes& attrs = ctx.attrs();
  switch (ctx.dtype(0)) {
    case DType::STRING:
      return count_rows<std::string, std::string>(ctx, s, attrs.get_strings("pool_strings"));
    case DType::INT32:
      return count_rows<int64_t, int32_t>(ctx, s, attrs.get_ints("pool_int64s"));
    default:
      return count_rows<int64_t, int64_t>(ctx, s, attrs.get_ints("pool_int64s"));
  }
}

}  // namespace

void add_tfidf_ops(OpRegistry& registry) {
  registry.add({.name = "TfIdfVectorizer", .infer = infer_tfidf, .evaluate = evaluate_tfidf});
}

}  // namespace deepjit
