// NonMaxSuppression: per batch entry and class, the best-scored boxes that overlap no better one too much.
#include <algorithm>

#include "ops/common.h"
#include "ops/index/sort.h"

namespace deepjit {

namespace {

struct Box {
  float top, left, bottom, right;
};

void infer_nms(InferContext& ctx) {
  expect_type(ctx, "NonMaxSuppression", 0, ctx.dtype(0) == DType::FLOAT32, "a float32 tensor");
  expect_type(ctx, "NonMaxSuppression", 1, ctx.dtype(1) == DType::FLOAT32, "a float32 tensor");
  for (int i = 0; i < 2; ++i) {
    if (ctx.shape(i).ranked() && ctx.shape(i).rank() != 3) {
      throw Error(Code::SHAPE_MISMATCH, "NonMaxSuppression: boxes and scores must have rank 3");
    }
  }
  ctx.set_output(0, DType::INT64, Shape({ctx.fresh_dim(), Dim(3)}));
}

Box load_box(const float* p, bool center) {
  if (center) return {p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2};
  // The two corners may come in any order.
  return {std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]), std::max(p[1], p[3])};
}

bool overlaps(const Box& a, const Box& b, float threshold) {
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0) return false;
  const float common = height * width;
  const float area_a = (a.bottom - a.top) * (a.right - a.left);
  const float area_b = (b.bottom - b.top) * (b.right - b.left);
  const float joint = area_a + area_b - common;
  return area_a > 0 && area_b > 0 && joint > 0 && common / joint > threshold;
}

std::optional<float> scalar_input(EvalContext& ctx, int i) {
  if (!ctx.has_input(i) || ctx.input(i).count() == 0) return std::nullopt;
  return ctx.data<float>(i)[0];
}

void evaluate_nms(EvalContext& ctx) {
  const Dims& box_dims = ctx.dims(0);
  const Dims& score_dims = ctx.dims(1);
  if (box_dims.rank() != 3 || score_dims.rank() != 3 || box_dims[0] != score_dims[0] || box_dims[1] != score_dims[2] ||
      box_dims[2] != 4) {
    throw Error(Code::SHAPE_MISMATCH, "NonMaxSuppression: boxes " + box_dims.to_string() + " and scores " +
                                          score_dims.to_string() + " do not fit together");
  }
  const int64_t boxes = box_dims[1];
  const int64_t classes = score_dims[1];
  const int64_t limit = ctx.has_input(2) && ctx.input(2).count() > 0 ? ctx.ints(2)[0] : 0;
  const float iou = scalar_input(ctx, 3).value_or(0.0f);
  const std::optional<float> least_score = scalar_input(ctx, 4);
  const bool center = ctx.attrs().get_int("center_point_box", 0) != 0;
  std::vector<int64_t> selected;
  std::vector<Box> all(static_cast<size_t>(boxes));
  std::vector<Box> kept;
  std::vector<int64_t> order;
  for (int64_t b = 0; limit > 0 && b < box_dims[0]; ++b) {
    for (int64_t i = 0; i < boxes; ++i) {
      all[static_cast<size_t>(i)] = load_box(ctx.data<float>(0) + (b * boxes + i) * 4, center);
    }
    for (int64_t c = 0; c < classes; ++c) {
      const float* scores = ctx.data<float>(1) + (b * classes + c) * boxes;
      order.clear();
      for (int64_t i = 0; i < boxes; ++i) {
        if (scores[i] == scores[i] && (!least_score || scores[i] > *least_score)) order.push_back(i);
      }
      std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) { return scores[x] > scores[y]; });
      kept.clear();
      for (int64_t i : order) {
        if (static_cast<int64_t>(kept.size()) >= limit) break;
        const Box& box = all[static_cast<size_t>(i)];
        if (std::any_of(kept.begin(), kept.end(), [&](const Box& other) { return overlaps(box, other, iou); }))
          continue;
        kept.push_back(box);
        selected.insert(selected.end(), {b, c, i});
      }
    }
  }
  auto* out = ctx.output(0, DType::INT64, {static_cast<int64_t>(selected.size()) / 3, 3}).as<int64_t>();
  std::copy(selected.begin(), selected.end(), out);
}

}  // namespace

void add_nms_ops(OpRegistry& registry) {
  registry.add(
      {.name = "NonMaxSuppression", .min_inputs = 2, .max_inputs = 5, .infer = infer_nms, .evaluate = evaluate_nms});
}

}  // namespace deepjit
