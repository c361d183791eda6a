// Gives convolutions of images of few channels more of them: squares of stride x stride pixels become one with all
// their channels (SpaceToDepth), and the kernel is laid out for them; its stride is 1 then. A 7 x 7 of stride 2 over 3
// channels becomes a 4 x 4 over 16, patches of 16 x 16 a product. 16-bit floats only, whose kernels read eight channels
// at a time.
//
// Stands before layouts, while channels come first.
#pragma once

#include "graph/graph.h"

namespace deepjit {

bool deepen_images(Graph& graph);

}  // namespace deepjit
