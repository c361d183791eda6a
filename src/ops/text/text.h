// The ops on text. Strings are UTF-8; bytes that are not valid UTF-8 pass through unchanged.
#pragma once

#include "ops/op.h"

namespace deepjit {

void add_text_ops(OpRegistry& registry);               // all of them
void add_string_ops(OpRegistry& registry);             // string.cpp: StringConcat, StringSplit, RegexFullMatch
void add_string_normalizer_ops(OpRegistry& registry);  // normalizer.cpp: StringNormalizer
void add_tfidf_ops(OpRegistry& registry);              // tfidf.cpp: TfIdfVectorizer

}  // namespace deepjit
