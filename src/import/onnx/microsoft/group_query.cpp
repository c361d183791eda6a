// GroupQueryAttention: fewer key heads than query heads, a cache of keys and values, and rows of different lengths.
//
// Row b of the batch has seqlens_k[b] + 1 tokens, the last of which are the new ones. The cache may be as long as the
// past, or longer (a buffer); the new tokens are put where the row's past ends, so that the present is
// max(cache, total_sequence_length) long. What stands behind a row's tokens is not defined. Left out, with an error
// that says so: quantized caches, caches of a window, padded chunks and the output of scores.
#include "import/onnx/microsoft/attend.h"
#include "import/onnx/microsoft/families.h"

namespace deepjit::importer {

namespace {

struct Group {
  int64_t heads, kv_heads, size;
  Value *q, *k, *v;       // [batch, heads, length, size]
  Value* length;          // new tokens; like all counts below 1-D int64
  Value* past;            // [batch, 1]: tokens before the new ones
  Value* absolute;        // [batch, length]: where each new token stands
  Value* keys = nullptr;  // keys there are
};

void refuse(const NodeImport& node) {
  const std::pair<size_t, const char*> inputs[] = {{12, "k_scale"}, {13, "v_scale"}, {16, "query_seqlens"}};
  for (const auto& [i, name] : inputs) {
    if (node.input(i) != nullptr) {
      throw Error(Code::UNSUPPORTED_OP, "the input " + std::string(name) + " is not supported");
    }
  }
  for (const char* name : {"sliding_window_cache", "qk_output"}) {
    if (node.attrs.get_int(name, 0) != 0) {
      throw Error(Code::UNSUPPORTED_OP, "the attribute " + std::string(name) + " is not supported");
    }
  }
  if (node.has_output(3)) throw Error(Code::UNSUPPORTED_OP, "the output output_qk is not supported");
}

// RMS norm of each head, then [batch, heads, length, size].
Value* place_heads(const Emit& emit, Value* x, int64_t heads, Value* norm, const char* epsilon) {
  const NodeImport& node = emit.node();
  x = emit.reshape(x, {0, 0, heads, -1});
  if (norm != nullptr) {
    const float both = node.attrs.get_float("qk_norm_epsilon", 1e-6f);
    x = emit.op("RMSNormalization", {x, norm}, "epsilon", node.attrs.get_float(epsilon, both));
  }
  return emit.transpose(x, {0, 2, 1, 3});
}

Group project(const Emit& emit) {
  const NodeImport& node = emit.node();
  Group g = {};
  g.heads = node.attrs.require_int("num_heads");
  g.kv_heads = node.attrs.require_int("kv_num_heads");
  if (g.heads < 1 || g.kv_heads < 1 || g.heads % g.kv_heads != 0) {
    throw Error(Code::ATTRIBUTE,
                std::to_string(g.heads) + " query heads do not share " + std::to_string(g.kv_heads) + " key heads");
  }
  Value* query = node.require_input(0);
  Value* key = node.input(1);
  Value* value = node.input(2);
  const int64_t hidden = require_size(query, 2, "the query");
  g.size = hidden / (key == nullptr ? g.heads + 2 * g.kv_heads : g.heads);
  if (key == nullptr) {
    const int64_t kv = g.kv_heads * g.size;
    const std::vector<Value*> parts = emit.split(query, 2, {g.heads * g.size, kv, kv});
    query = parts[0];
    key = parts[1];
    value = parts[2];
  }
  if (value == nullptr) throw Error(Code::ARITY, "key needs value");
  g.q = place_heads(emit, query, g.heads, node.input(14), "q_norm_epsilon");
  g.k = place_heads(emit, key, g.kv_heads, node.input(15), "k_norm_epsilon");
  g.v = place_heads(emit, value, g.kv_heads, nullptr, "");
  return g;
}

void find_positions(const Emit& emit, Group& g) {
  Value* lengths = emit.cast(emit.reshape(emit.node().require_input(5), {-1, 1}), DType::INT64);
  g.length = emit.dim(g.q, 2);
  Value* before = emit.sub(emit.add(lengths, emit.ints({1})), g.length);
  g.past = emit.op("Max", {before, emit.ints({0})});  // a padded prompt is longer than what counts of it
  g.absolute = emit.add(g.past, emit.range(g.length));
}

void rotate(const Emit& emit, Group& g) {
  const NodeImport& node = emit.node();
  if (node.attrs.get_int("do_rotary", 0) == 0) return;
  Value* positions = node.input(9) == nullptr ? g.absolute : emit.cast(node.input(9), DType::INT64);
  Attributes attrs;
  attrs.set("interleaved", node.attrs.get_int("rotary_interleaved", 0));
  attrs.set("rotary_embedding_dim", 2 * require_size(node.require_input(7), 1, "the cache of cosines"));
  auto turned = [&](Value* x) {
    return emit.node().emit("RotaryEmbedding", {x, node.input(7), node.require_input(8), positions}, attrs);
  };
  g.q = turned(g.q);
  g.k = turned(g.k);
}

// The past up to where each row's ends, then its new tokens.
Value* present(const Emit& emit, const Group& g, Value* past, Value* fresh) {
  Value* all = emit.transpose(emit.concat({past, fresh}, 2), {0, 2, 1, 3});
  Value* at = emit.unsqueeze(emit.range(g.keys), {0});
  Value* last = emit.sub(g.length, emit.ints({1}));
  Value* of_fresh = emit.op("Min", {emit.op("Max", {emit.sub(at, g.past), emit.ints({0})}), last});
  Value* index = emit.op("Where", {emit.op("Less", {at, g.past}), at, emit.add(of_fresh, emit.dim(past, 2))});
  Value* rows = emit.op("GatherND", {all, emit.unsqueeze(index, {2})}, "batch_dims", int64_t{1});
  return emit.transpose(rows, {0, 2, 1, 3});
}

void append_to_cache(const Emit& emit, Group& g) {
  NodeImport& node = emit.node();
  Value* past = node.input(3);
  if (past != nullptr) {
    Value* total = emit.cast(emit.reshape(node.require_input(6), {1}), DType::INT64);
    g.keys = emit.op("Max", {emit.dim(past, 2), total});
    g.k = present(emit, g, past, g.k);
    g.v = present(emit, g, node.require_input(4), g.v);
  } else {
    g.keys = emit.dim(g.k, 2);
  }
  node.define(1, "Identity", {g.k});
  node.define(2, "Identity", {g.v});
}

// [batch, 1, length, keys] of bool.
Value* visible(const Emit& emit, const Group& g) {
  const NodeImport& node = emit.node();
  Value* at = emit.range(g.keys);
  if (node.attrs.get_int("causal", 1) == 0) {
    Value* lengths = emit.cast(emit.reshape(node.require_input(5), {-1, 1, 1, 1}), DType::INT64);
    return emit.op("LessOrEqual", {at, lengths});
  }
  Value* own = emit.unsqueeze(g.absolute, {1, 3});
  Value* keep = emit.op("LessOrEqual", {at, own});
  const int64_t window = node.attrs.get_int("local_window_size", -1);
  if (window < 0) return keep;
  return emit.op("And", {keep, emit.op("Greater", {at, emit.sub(own, emit.ints({window}))})});
}

// A bias has total_sequence_length columns; a longer cache has keys behind them, which nobody sees.
Value* widened(const Emit& emit, const Group& g, Value* bias) {
  Value* missing = emit.sub(g.keys, emit.dim(bias, 3));
  return emit.op("Pad", {bias, emit.concat({emit.ints({0, 0, 0, 0, 0, 0, 0}), missing}, 0)});
}

Value* softmax_with_sink(const Emit& emit, const Group& g, Value* scores) {
  const NodeImport& node = emit.node();
  Value* sink = node.input(11);
  if (sink == nullptr && node.attrs.get_int("smooth_softmax", 0) == 0) return emit.softmax(scores);
  sink = sink != nullptr ? emit.reshape(sink, {1, g.heads, 1, 1})
                         : emit.reshape(emit.scalar_like(0, scores), {1, 1, 1, 1});
  Value* shape = emit.concat({emit.dim(scores, 0), emit.dim(scores, 1), emit.dim(scores, 2), emit.ints({1})}, 0);
  Value* all = emit.softmax(emit.concat({scores, emit.expand(sink, shape)}, 3));
  return emit.slice(all, 3, emit.ints({0}), g.keys);
}

// query, key, value, past_key, past_value, seqlens_k, total_sequence_length, cos_cache, sin_cache, position_ids,
// attention_bias, head_sink, k_scale, v_scale, q_norm_weight, k_norm_weight, query_seqlens.
void group_query_attention(NodeImport& node) {
  const Emit emit(node);
  refuse(node);
  Group g = project(emit);
  find_positions(emit, g);
  rotate(emit, g);
  append_to_cache(emit, g);
  // The query heads that share a key head become rows of one product.
  Value* rows = emit.reshape(g.q, {0, g.kv_heads, -1, g.size});
  Value* scores = scaled_scores(emit, rows, g.k, node.attrs.get_float("scale", 0));
  scores = emit.reshape(scores, emit.concat({emit.ints({0, g.heads}), g.length, emit.ints({-1})}, 0));
  const float softcap = node.attrs.get_float("softcap", 0);
  if (softcap > 0) scores = emit.scale(emit.op("Tanh", {emit.scale(scores, 1.0 / softcap)}), softcap);
  if (node.input(10) != nullptr) scores = emit.add(scores, widened(emit, g, node.input(10)));
  scores = emit.add(scores, additive_mask(emit, visible(emit, g), scores, lowest_of(scores)));
  Value* weights = softmax_with_sink(emit, g, scores);
  weights = emit.reshape(weights, emit.concat({emit.ints({0, g.kv_heads, -1}), g.keys}, 0));
  Value* y = emit.matmul(weights, g.v);
  y = emit.reshape(y, emit.concat({emit.ints({0, g.heads}), g.length, emit.ints({-1})}, 0));
  node.define(0, "Identity", {join_heads(emit, y)});
}

}  // namespace

void add_microsoft_group_query_handlers(HandlerMap& map) {
  map["com.microsoft.GroupQueryAttention"] = group_query_attention;
}

}  // namespace deepjit::importer
