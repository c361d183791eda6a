// A first look at the protobuf bytes, before anything is parsed or allocated.
//
// Follows whatever a model can hold many of. Throws TRUNCATED, PARSE, LIMIT (too many nodes, other parts or texts) or
// DEPTH (subgraphs nested too deep), so the parser itself never meets those.
#pragma once

#include <span>

#include "import/importer.h"

namespace deepjit::importer {

void scan_wire(std::span<const uint8_t> bytes, const ImportOptions& options);

}  // namespace deepjit::importer
