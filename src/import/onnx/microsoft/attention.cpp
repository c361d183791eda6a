// Attention, QAttention, MultiHeadAttention and RotaryEmbedding.
//
// Left out, with an error that says so: caches that are written in place (past_sequence_length), beams
// (cache_indirection) and rotation inside Attention.
#include "import/onnx/microsoft/attend.h"
#include "import/onnx/microsoft/families.h"

namespace deepjit::importer {

namespace {

// One attention node once its projections are known: q, k and v are [batch, heads, length, size].
struct Heads {
  Value* q = nullptr;
  Value* k = nullptr;
  Value* v = nullptr;
  Value* past_length = nullptr;  // 1-D of one element
};

void refuse_attribute(const NodeImport& node, const char* name) {
  if (node.attrs.get_int(name, 0) == 0) return;
  throw Error(Code::UNSUPPORTED_OP, "the attribute " + std::string(name) + " is not supported");
}

void refuse_input(const NodeImport& node, size_t i, const char* name) {
  if (node.input(i) != nullptr)
    throw Error(Code::UNSUPPORTED_OP, "the input " + std::string(name) + " is not supported");
}

void append_past(const Emit& emit, Heads& heads, Value* past_key, Value* past_value) {
  heads.past_length = past_key == nullptr ? emit.ints({0}) : emit.dim(past_key, 2);
  if (past_key == nullptr) return;
  heads.k = emit.concat({past_key, heads.k}, 2);
  heads.v = emit.concat({past_value, heads.v}, 2);
}

// A mask of rank 1: [batch] where each row ends, or [2 * batch] with where it begins behind that. Which of the two it
// is need not be known: behind the ends there are the beginnings or, put there, zeros.
Value* keep_range(const Emit& emit, Value* mask, const Heads& heads) {
  Value* batch = emit.dim(heads.q, 0);
  Value* wide = emit.cast(mask, DType::INT64);
  Value* ends = emit.reshape(emit.slice(wide, 0, emit.ints({0}), batch), {-1, 1, 1, 1});
  Value* keys = emit.range(emit.dim(heads.k, 2));
  Value* before_end = emit.op("Less", {keys, ends});
  const Dim& rows = heads.q->type.shape[0];
  const Dim& count = mask->type.shape[0];
  if (count == rows || count == rows * Dim(3) + Dim(2)) return before_end;
  Value* zeros = emit.expand(emit.ints({0}), batch);
  Value* both = emit.slice(emit.concat({wide, zeros}, 0), 0, batch, emit.add(batch, batch));
  return emit.op("And", {before_end, emit.op("GreaterOrEqual", {keys, emit.reshape(both, {-1, 1, 1, 1})})});
}

// What may be seen, to broadcast to [batch, heads, queries, keys].
Value* keep_mask(const Emit& emit, Value* mask, const Heads& heads) {
  const int rank = require_rank(mask, "a mask");
  if (rank == 1) return keep_range(emit, mask, heads);
  if (rank == 4) {  // [batch, 1, longest, longest]: the rows of these queries and the keys there are
    Value* end = emit.add(heads.past_length, emit.dim(heads.q, 2));
    mask = emit.slice(emit.slice(mask, 2, heads.past_length, end), 3, emit.ints({0}), emit.dim(heads.k, 2));
  } else if (rank == 2) {
    mask = emit.unsqueeze(mask, {1, 2});
  } else {
    mask = emit.unsqueeze(mask, {1});
  }
  if (dtype_of(mask) == DType::BOOL) return mask;
  return emit.op("Greater", {mask, emit.scalar_like(0, mask)});
}

// Outputs the attention of `heads` as output 0; the weights as output `weights_output` when that is named.
void define_attention(const Emit& emit, const Heads& heads, Value* mask, Value* bias, size_t weights_output) {
  NodeImport& node = emit.node();
  Value* scores = scaled_scores(emit, heads.q, heads.k, node.attrs.get_float("scale", 0));
  if (mask != nullptr) {
    const double masked = node.attrs.get_float("mask_filter_value", -10000.0f);
    scores = emit.add(scores, additive_mask(emit, keep_mask(emit, mask, heads), scores, masked));
  }
  if (bias != nullptr) scores = emit.add(scores, bias);
  if (node.attrs.get_int("unidirectional", 0) != 0) {
    Value* keep = causal_mask(emit, emit.dim(heads.q, 2), emit.dim(heads.k, 2), heads.past_length);
    scores = emit.add(scores, additive_mask(emit, keep, scores, lowest_of(scores)));
  }
  Value* weights = emit.softmax(scores);
  node.define(weights_output, "Identity", {weights});
  node.define(0, "Identity", {join_heads(emit, emit.matmul(weights, heads.v))});
}

// ---- Attention ------------------------------------------------------------------------------------

std::vector<int64_t> projection_sizes(const NodeImport& node, const Value* weights) {
  std::vector<int64_t> sizes = node.attrs.get_ints("qkv_hidden_sizes");
  if (!sizes.empty() && sizes.size() != 3) throw Error(Code::ATTRIBUTE, "qkv_hidden_sizes needs three sizes");
  if (sizes.empty()) {
    const int64_t all = require_size(weights, -1, "a projection");
    if (all % 3 != 0)
      throw Error(Code::SHAPE_MISMATCH, "a projection to " + std::to_string(all) + " is not Q, K and V");
    sizes.assign(3, all / 3);
  }
  return sizes;
}

// From the projected [batch, length, q + k + v] on. `past` and the output `present` are [2, batch, heads, length,
// size].
void define_self_attention(const Emit& emit, Value* projected, Value* weights, Value* mask, Value* past, Value* bias) {
  NodeImport& node = emit.node();
  refuse_attribute(node, "do_rotary");
  refuse_attribute(node, "past_present_share_buffer");
  const int64_t count = node.attrs.require_int("num_heads");
  const std::vector<Value*> parts = emit.split(projected, 2, projection_sizes(node, weights));
  Heads heads = {split_heads(emit, parts[0], count), split_heads(emit, parts[1], count),
                 split_heads(emit, parts[2], count)};
  Value* past_key = nullptr;
  Value* past_value = nullptr;
  if (past != nullptr) {
    past_key = emit.squeeze(emit.slice(past, 0, 0, 1), {0});
    past_value = emit.squeeze(emit.slice(past, 0, 1, 2), {0});
  }
  append_past(emit, heads, past_key, past_value);
  if (node.has_output(1)) {
    Value* present = emit.concat({emit.unsqueeze(heads.k, {0}), emit.unsqueeze(heads.v, {0})}, 0);
    node.define(1, "Identity", {present});
  }
  define_attention(emit, heads, mask, bias, 2);
}

// input, weights, bias, mask_index, past, attention_bias, past_sequence_length.
void attention(NodeImport& node) {
  const Emit emit(node);
  refuse_input(node, 6, "past_sequence_length");
  Value* projected = emit.matmul(node.require_input(0), node.require_input(1));
  if (node.input(2) != nullptr) projected = emit.add(projected, node.input(2));
  define_self_attention(emit, projected, node.input(1), node.input(3), node.input(4), node.input(5));
}

// input, weight, bias, input_scale, weight_scale, mask_index, input_zero_point, weight_zero_point, past.
void quantized_attention(NodeImport& node) {
  const Emit emit(node);
  std::vector<Value*> inputs = {node.require_input(0), node.require_input(1), node.input(6), node.input(7)};
  while (inputs.back() == nullptr) inputs.pop_back();
  Value* sums = emit.cast(emit.op("MatMulInteger", inputs), DType::FLOAT32);
  Value* projected = emit.mul(sums, emit.mul(node.require_input(3), node.require_input(4)));
  projected = emit.add(projected, node.require_input(2));
  define_self_attention(emit, projected, node.input(1), node.input(5), node.input(8), nullptr);
}

// ---- MultiHeadAttention ---------------------------------------------------------------------------

// The three parts of the bias, each to be added to [batch, length, heads, size]; nullptr when there is none.
std::vector<Value*> bias_parts(const Emit& emit, Value* bias, int64_t heads, int64_t size, int64_t v_size) {
  if (bias == nullptr) return {nullptr, nullptr, nullptr};
  std::vector<Value*> parts = emit.split(bias, 0, {heads * size, heads * size, heads * v_size});
  for (Value*& part : parts) part = emit.reshape(part, {heads, -1});
  return parts;
}

Value* place_heads(const Emit& emit, Value* x, Value* bias) {
  return emit.transpose(bias == nullptr ? x : emit.add(x, bias), {0, 2, 1, 3});
}

// query, key and value as [batch, length, heads, size], whichever way they are packed.
std::vector<Value*> unpack(const Emit& emit, int64_t heads) {
  const NodeImport& node = emit.node();
  Value* query = node.require_input(0);
  std::vector<Value*> out;
  auto take_packed = [&](Value* packed, size_t count) {
    for (Value* part : emit.split(packed, 3, std::vector<int64_t>(count, 1))) out.push_back(emit.squeeze(part, {3}));
  };
  auto take = [&](Value* x) { out.push_back(emit.reshape(x, {0, 0, heads, -1})); };
  if (require_rank(query, "the query") == 5) {
    take_packed(query, 3);
    return out;
  }
  take(query);
  Value* key = node.require_input(1);
  if (require_rank(key, "the key") == 5) {
    take_packed(key, 2);
    return out;
  }
  take(key);
  take(node.require_input(2));
  return out;
}

// query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value, past_sequence_length,
// cache_indirection.
void multi_head_attention(NodeImport& node) {
  const Emit emit(node);
  refuse_input(node, 8, "past_sequence_length");
  refuse_input(node, 9, "cache_indirection");
  const int64_t count = node.attrs.require_int("num_heads");
  if (count < 1) throw Error(Code::ATTRIBUTE, "num_heads is " + std::to_string(count));
  Heads heads;
  if (node.input(1) != nullptr && rank_of(node.input(1)) == 4) {  // keys and values are placed already, without a bias
    Value* query = emit.reshape(node.require_input(0), {0, 0, count, -1});
    Value* bias = node.input(3);
    if (bias != nullptr) {
      bias = emit.reshape(emit.slice(bias, 0, 0, count * require_size(query, 3, "the head")), {count, -1});
    }
    heads = {place_heads(emit, query, bias), node.input(1), node.require_input(2)};
  } else {
    const std::vector<Value*> parts = unpack(emit, count);
    std::vector<Value*> bias(3, nullptr);
    if (node.input(3) != nullptr) {
      bias = bias_parts(emit, node.input(3), count, require_size(parts[0], 3, "the head"),
                        require_size(parts[2], 3, "the head"));
    }
    heads = {place_heads(emit, parts[0], bias[0]), place_heads(emit, parts[1], bias[1]),
             place_heads(emit, parts[2], bias[2])};
  }
  append_past(emit, heads, node.input(6), node.input(7));
  node.define(1, "Identity", {heads.k});
  node.define(2, "Identity", {heads.v});
  define_attention(emit, heads, node.input(4), node.input(5), 3);
}

// ---- RotaryEmbedding ------------------------------------------------------------------------------

// input, position_ids, cos_cache, sin_cache. One position is where the first token stands.
void rotary_embedding(NodeImport& node) {
  const Emit emit(node);
  refuse_attribute(node, "is_packed_batching");
  Value* x = node.require_input(0);
  Value* positions = emit.cast(node.require_input(1), DType::INT64);
  const int rank = require_rank(x, "the input");
  const int64_t rotated = 2 * require_size(node.require_input(2), 1, "the cache");
  Attributes attrs;
  attrs.set("interleaved", node.attrs.get_int("interleaved", 0));
  attrs.set("rotary_embedding_dim", rotated);
  int64_t heads = node.attrs.get_int("num_heads", 0);
  if (rank == 3) {
    if (heads == 0) heads = require_size(x, 2, "the hidden size") / rotated;
    attrs.set("num_heads", heads);
  }
  if (require_rank(positions, "position_ids") == 1) {
    Value* tokens = emit.add(emit.range(emit.dim(x, rank == 3 ? 1 : 2)), positions);
    positions = emit.expand(tokens, emit.concat({emit.dim(x, 0), emit.ints({1})}, 0));
  }
  node.finish("RotaryEmbedding", {x, node.input(2), node.require_input(3), positions}, attrs);
}

}  // namespace

void add_microsoft_attention_handlers(HandlerMap& map) {
  map["com.microsoft.Attention"] = attention;
  map["com.microsoft.QAttention"] = quantized_attention;
  map["com.microsoft.MultiHeadAttention"] = multi_head_attention;
  map["com.microsoft.RotaryEmbedding"] = rotary_embedding;
}

}  // namespace deepjit::importer
