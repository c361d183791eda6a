// Resize and its forerunners, and sampling ops whose modes were renamed.
#include <algorithm>

#include "import/onnx/node_import.h"

namespace deepjit::importer {

namespace {

Attributes asymmetric(const std::string& mode, const char* nearest) {
  Attributes attrs;
  attrs.set("mode", mode == "bilinear" || mode == "trilinear" ? std::string("linear") : mode);
  attrs.set("coordinate_transformation_mode", std::string("asymmetric"));
  attrs.set("nearest_mode", std::string(nearest));
  return attrs;
}

// Upsample and Resize 10: corners stay in place. The nearest element is the one before where an axis grows and
// the one behind where it shrinks; axes are independent, so one Resize each does both.
void resize_asymmetric(NodeImport& node, Value* scales) {
  const std::string mode = node.attrs.get_string("mode", "nearest");
  Value* x = node.require_input(0);
  const Tensor* known = constant_of(scales);
  if (mode == "nearest" && known != nullptr && known->dtype() == DType::FLOAT32) {
    const Dims& dims = known->dims();
    Tensor grow(DType::FLOAT32, dims);
    Tensor shrink(DType::FLOAT32, dims);
    bool grows = false;
    bool shrinks = false;
    for (int64_t i = 0; i < known->count(); ++i) {
      const float scale = known->as<float>()[i];
      grow.as<float>()[i] = std::max(scale, 1.0f);
      shrink.as<float>()[i] = std::min(scale, 1.0f);
      grows |= scale > 1;
      shrinks |= scale < 1;
    }
    if (shrinks) {
      if (grows) x = node.emit("Resize", {x, nullptr, node.constant(grow)}, asymmetric(mode, "floor"));
      node.finish("Resize", {x, nullptr, node.constant(shrink)}, asymmetric(mode, "ceil"));
      return;
    }
  }
  node.finish("Resize", {x, nullptr, scales}, asymmetric(mode, "floor"));
}

void upsample(NodeImport& node) {
  if (node.version >= 9) return resize_asymmetric(node, node.require_input(1));
  const std::vector<float> scales = node.attrs.get_floats("scales");
  if (scales.empty()) throw Error(Code::ATTRIBUTE, "attribute scales is required");
  const Dims dims = {static_cast<int64_t>(scales.size())};
  resize_asymmetric(node, node.constant(Tensor::from<float>(DType::FLOAT32, dims, scales)));
}

void resize(NodeImport& node) {
  if (node.version < 11) return resize_asymmetric(node, node.require_input(1));
  // An empty tensor stands for an omitted input.
  for (size_t i = 1; i < node.input_count(); ++i) {
    const Tensor* tensor = constant_of(node.input(i));
    if (tensor != nullptr && tensor->count() == 0) node.inputs[i] = nullptr;
  }
  const std::string coordinates = node.attrs.get_string("coordinate_transformation_mode", "half_pixel");
  if (coordinates != "tf_crop_and_resize" && node.input_count() > 1) node.inputs[1] = nullptr;
  node.finish();
}

void grid_sample(NodeImport& node) {
  const std::string mode = node.attrs.get_string("mode", "linear");
  if (mode == "bilinear") node.attrs.set("mode", std::string("linear"));
  if (mode == "bicubic") node.attrs.set("mode", std::string("cubic"));
  node.finish();
}

void roi_align(NodeImport& node) {
  const char* mode = "coordinate_transformation_mode";
  if (node.version < 16 && !node.attrs.has(mode)) node.attrs.set(mode, std::string("output_half_pixel"));
  node.finish();
}

void image_decoder(NodeImport&) {
  throw Error(Code::UNSUPPORTED_OP, "images are not decoded here; decode them outside and feed the pixels");
}

}  // namespace

void add_image_handlers(HandlerMap& map) {
  map["ImageDecoder"] = image_decoder;
  map["Upsample"] = upsample;
  map["Resize"] = resize;
  map["GridSample"] = grid_sample;
  map["RoiAlign"] = roi_align;
}

}  // namespace deepjit::importer
