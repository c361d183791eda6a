// RotaryEmbedding: rotates pairs of each head's first elements by the position's angles.
#include "ops/common.h"
#include "ops/linear/compute_buffer.h"
#include "ops/nn/attention.h"

namespace deepjit {

namespace {

struct Sizes {
  int64_t batch, length, heads, head, rotated;
  bool packed;
};

Sizes sizes_of(const EvalContext& ctx) {
  const Dims& x = ctx.dims(0);
  Sizes s;
  s.packed = x.rank() == 3;
  s.batch = x[0];
  s.length = s.packed ? x[1] : x[2];
  s.heads = s.packed ? ctx.attrs().require_int("num_heads") : x[1];
  if (s.packed && (s.heads < 1 || x[2] % s.heads != 0)) {
    throw Error(Code::SHAPE_MISMATCH, "RotaryEmbedding: the hidden size " + std::to_string(x[2]) +
                                          " does not split into " + std::to_string(s.heads) + " heads");
  }
  s.head = s.packed ? x[2] / s.heads : x[3];
  s.rotated = ctx.attrs().get_int("rotary_embedding_dim", 0);
  if (s.rotated == 0) s.rotated = s.head;
  if (s.rotated < 0 || s.rotated > s.head || s.rotated % 2 != 0) {
    throw Error(Code::ATTRIBUTE, "RotaryEmbedding: rotary_embedding_dim is " + std::to_string(s.rotated) +
                                     " for heads of " + std::to_string(s.head));
  }
  return s;
}

// Row of the caches for token (b, t): its position, or with position_ids absent b * length + t.
int64_t cache_row(EvalContext& ctx, const Sizes& s, const std::vector<int64_t>& positions, int64_t b, int64_t t) {
  const int64_t token = b * s.length + t;
  if (!ctx.has_input(3)) return token;
  const int64_t row = positions[static_cast<size_t>(token)];
  const int64_t rows = ctx.dims(1)[0];
  if (row < -rows || row >= rows) {
    throw Error(Code::INDEX_RANGE, "RotaryEmbedding: position " + std::to_string(row) + " is outside the cache of " +
                                       std::to_string(rows));
  }
  return row < 0 ? row + rows : row;
}

void check_caches(EvalContext& ctx, const Sizes& s) {
  const int64_t tokens = s.batch * s.length, half = s.rotated / 2;
  const bool ids = ctx.has_input(3);
  for (int i = 1; i < 3; ++i) {
    const Dims& cache = ctx.dims(i);
    const int64_t rows = cache.rank() == 0 || cache.back() == 0 ? 0 : cache.count() / cache.back();
    if (cache.rank() != (ids ? 2 : 3) || cache.back() != half || (!ids && rows != tokens) || cache != ctx.dims(1)) {
      throw Error(Code::SHAPE_MISMATCH, "RotaryEmbedding: the cache " + cache.to_string() +
                                            " does not fit; its last dim must be " + std::to_string(half));
    }
  }
  if (ids && ctx.dims(3).count() != tokens) {
    throw Error(Code::SHAPE_MISMATCH, "RotaryEmbedding: position_ids has shape " + ctx.dims(3).to_string());
  }
}

template <typename C>
void rotate(EvalContext& ctx, const Sizes& s) {
  const bool interleaved = ctx.attrs().get_int("interleaved", 0) != 0;
  const std::vector<int64_t> positions = ctx.has_input(3) ? ctx.ints(3) : std::vector<int64_t>();
  const C *x = read_compute<C>(ctx, 0), *cosines = read_compute<C>(ctx, 1), *sines = read_compute<C>(ctx, 2);
  ComputeOutput<C> out(ctx, 0, ctx.dtype(0), ctx.dims(0));
  const int64_t half = s.rotated / 2;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t t = 0; t < s.length; ++t) {
      const int64_t row = cache_row(ctx, s, positions, b, t) * half;
      for (int64_t h = 0; h < s.heads; ++h) {
        const int64_t at =
            s.packed ? ((b * s.length + t) * s.heads + h) * s.head : ((b * s.heads + h) * s.length + t) * s.head;
        std::copy_n(x + at, s.head, out.data() + at);
        for (int64_t i = 0; i < half; ++i) {
          const int64_t first = at + (interleaved ? 2 * i : i), second = at + (interleaved ? 2 * i + 1 : half + i);
          const C cosine = cosines[row + i], sine = sines[row + i];
          out.data()[first] = cosine * x[first] - sine * x[second];
          out.data()[second] = sine * x[first] + cosine * x[second];
        }
      }
    }
  }
  out.finish();
}

void evaluate_rotary(EvalContext& ctx) {
  const Sizes s = sizes_of(ctx);
  check_caches(ctx, s);
  visit_compute(ctx.dtype(0), "RotaryEmbedding", [&]<typename C>() { rotate<C>(ctx, s); });
}

void infer_rotary(InferContext& ctx) {
  expect_compute_float(ctx, "RotaryEmbedding", 0);
  const Shape& x = ctx.shape(0);
  if (x.ranked() && x.rank() != 3 && x.rank() != 4) {
    throw Error(Code::SHAPE_MISMATCH, "RotaryEmbedding: the input " + x.to_string() + " has neither rank 3 nor 4");
  }
  if (x.ranked() && x.rank() == 3) ctx.attrs().require_int("num_heads");
  ctx.set_output(0, ctx.dtype(0), x);
}

}  // namespace

void add_rotary_embedding_op(OpRegistry& registry) {
  registry.add({.name = "RotaryEmbedding",
                .min_inputs = 3,
                .max_inputs = 4,
                .infer = infer_rotary,
                .evaluate = evaluate_rotary});
}

}  // namespace deepjit
