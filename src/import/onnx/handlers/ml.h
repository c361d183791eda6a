// What the handlers of ai.onnx.ml share: scores to outputs, and labels.
#pragma once

#include "import/onnx/node_import.h"

namespace deepjit::importer {

// Scores [N, n] after the transform that `name` asks for: NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT.
Value* post_transform(NodeImport& node, Value* scores, const std::string& name);

// The labels of a classifier: strings or int64.
Tensor class_labels(const NodeImport& node, const char* strings, const char* ints);
// Defines output 0, the label of index `index` (int64 [N]), and output 1, the scores.
void define_classes(NodeImport& node, Value* index, const Tensor& labels, Value* scores);
// The two outputs where the one score of each row, [N, 1], decides between two labels: the second when it is above
// `threshold`. The scores of both are (1 - s, s) with `complement`, else (-s, s); LOGISTIC transforms the latter.
void define_two_classes(NodeImport& node, Value* score, double threshold, bool complement, const Tensor& labels);

// deepjit.LabelEncoder; `fallback` may be undefined.
Value* emit_label_encoder(NodeImport& node, Value* x, const Tensor& keys, const Tensor& values, const Tensor& fallback);

}  // namespace deepjit::importer
