// The ops on text against results worked out by hand.
#include "op_test_util.h"
#include "ops/text/letter_case.h"

namespace deepjit {

namespace {

Tensor strings(const Dims& dims, const std::vector<std::string>& values) {
  return Tensor::from<std::string>(DType::STRING, dims, std::span<const std::string>(values));
}
std::vector<std::string> texts(const Tensor& t) { return {t.as<std::string>(), t.as<std::string>() + t.count()}; }
using Texts = std::vector<std::string>;

TEST(Text, ConcatBroadcasts) {
  const Tensor out = run_op("StringConcat", {}, {strings({2, 1}, {"a", ""}), strings({3}, {"x", "y", ""})})[0];
  EXPECT_EQ(out.dims(), (Dims{2, 3}));
  EXPECT_EQ(texts(out), (Texts{"ax", "ay", "a", "x", "y", ""}));
  EXPECT_EQ(error_code_of([] { run_op("StringConcat", {}, {strings({1}, {"a"}), f32({1}, {1})}); }), Code::TYPE);
}

TEST(Text, SplitAtDelimiters) {
  const auto out = run_op("StringSplit", {{"delimiter", std::string("--")}}, {strings({3}, {"a--b", "", "--c--"})}, 2);
  EXPECT_EQ(out[0].dims(), (Dims{3, 3}));
  EXPECT_EQ(texts(out[0]), (Texts{"a", "b", "", "", "", "", "", "c", ""}));
  expect_equal(out[1], i64({3}, {2, 1, 3}));
  const auto few =
      run_op("StringSplit", {{"delimiter", std::string(",")}, {"maxsplit", int64_t{1}}}, {strings({1}, {"a,b,c"})}, 2);
  EXPECT_EQ(texts(few[0]), (Texts{"a", "b,c"}));
}

TEST(Text, SplitAtBlanks) {
  const auto out = run_op("StringSplit", {}, {strings({2}, {"  a \t b\n", " "})}, 2);
  EXPECT_EQ(texts(out[0]), (Texts{"a", "b", "", ""}));
  expect_equal(out[1], i64({2}, {2, 0}));
  const auto few = run_op("StringSplit", {{"maxsplit", int64_t{1}}}, {strings({}, {" a  b  c "})}, 2);
  EXPECT_EQ(texts(few[0]), (Texts{"a", "b  c "}));
  EXPECT_EQ(run_op("StringSplit", {}, {strings({0, 2}, {})}, 2)[0].dims(), (Dims{0, 2, 0}));
}

TEST(Text, RegexMatchesTheWhole) {
  const Tensor x = strings({4}, {"www.google.com", "www.google.co", "xwww.a.com", ""});
  expect_equal(run_op("RegexFullMatch", {{"pattern", std::string(R"(www\.[\w]+\.\bcom\b)")}}, {x})[0],
               bools({4}, {1, 0, 0, 0}));
  expect_equal(run_op("RegexFullMatch", {{"pattern", std::string("")}}, {x})[0], bools({4}, {0, 0, 0, 1}));
  const auto bad = [&](const AttrList& attrs) { return error_code_of([&] { run_op("RegexFullMatch", attrs, {x}); }); };
  EXPECT_EQ(bad({{"pattern", std::string("(")}}), Code::ATTRIBUTE);
  EXPECT_EQ(bad({}), Code::ATTRIBUTE);
  // A pattern that takes time without end in engines that backtrack.
  const Tensor many = strings({1}, {std::string(50000, 'a') + "b"});
  expect_equal(run_op("RegexFullMatch", {{"pattern", std::string("(a*)*(a|aa)*c")}}, {many})[0], bools({1}, {0}));
}

TEST(Text, CaseOfLetters) {
  EXPECT_EQ(lower_case("AZ\xc3\x84\xce\xa3\xd0\x96\xc5\xb8\xc4\xb0"), "az\xc3\xa4\xcf\x83\xd0\xb6\xc3\xbfi");
  EXPECT_EQ(upper_case("az\xc3\xa4\xcf\x83\xcf\x82\xd1\x8f\xc3\xbf"), "AZ\xc3\x84\xce\xa3\xce\xa3\xd0\xaf\xc5\xb8");
  EXPECT_EQ(upper_case("stra\xc3\x9f"
                       "e"),
            "STRA\xc3\x9f"
            "E");                                                 // no single letter is its upper case
  EXPECT_EQ(lower_case("\xf0\x90\x90\x80"), "\xf0\x90\x90\xa8");  // Deseret
  EXPECT_EQ(lower_case("A\xff\xc3"
                       "B\xe2\x82"),
            "a\xff\xc3"
            "b\xe2\x82");  // not UTF-8
}

TEST(Text, NormalizerDropsWordsAndChangesCase) {
  const AttrList stop = {{"stopwords", std::vector<std::string>{"monday"}}};
  AttrList exact = stop;
  exact.push_back({"is_case_sensitive", int64_t{1}});
  exact.push_back({"case_change_action", std::string("UPPER")});
  const Tensor days = strings({4}, {"monday", "Monday", "t\xc3\xbc", "monday"});
  EXPECT_EQ(texts(run_op("StringNormalizer", exact, {days})[0]), (Texts{"MONDAY", "T\xc3\x9c"}));
  EXPECT_EQ(texts(run_op("StringNormalizer", stop, {days})[0]), (Texts{"t\xc3\xbc"}));
  const Tensor none = run_op("StringNormalizer", stop, {strings({1, 2}, {"monday", "MONDAY"})})[0];
  EXPECT_EQ(none.dims(), (Dims{1, 1}));
  EXPECT_EQ(texts(none), Texts{""});
  EXPECT_EQ(error_code_of([&] {
              run_op("StringNormalizer", stop, {strings({2, 1}, {"a", "b"})});
            }),
            Code::SHAPE_MISMATCH);
}

AttrList tfidf(const std::string& mode, int64_t shortest, int64_t longest, int64_t skips) {
  return {{"mode", mode},
          {"min_gram_length", shortest},
          {"max_gram_length", longest},
          {"max_skip_count", skips},
          {"ngram_counts", std::vector<int64_t>{0, 2}},
          {"ngram_indexes", std::vector<int64_t>{0, 1, 2}},
          {"weights", std::vector<float>{2, 3, 4}},
          {"pool_strings", std::vector<std::string>{"a", "b", "a", "b"}}};
}

TEST(Text, TfIdfCounts) {
  const Tensor x = strings({2, 4}, {"a", "c", "b", "b", "b", "a", "b", "c"});
  expect_equal(run_op("TfIdfVectorizer", tfidf("TF", 1, 2, 0), {x})[0], f32({2, 3}, {1, 2, 0, 1, 2, 1}));
  expect_equal(run_op("TfIdfVectorizer", tfidf("TF", 2, 2, 2), {x})[0], f32({2, 3}, {0, 0, 2, 0, 0, 1}));
  expect_equal(run_op("TfIdfVectorizer", tfidf("IDF", 1, 1, 0), {x})[0], f32({2, 3}, {2, 3, 0, 2, 3, 0}));
  expect_equal(run_op("TfIdfVectorizer", tfidf("TFIDF", 1, 2, 0), {x})[0], f32({2, 3}, {2, 6, 0, 2, 6, 4}));
  expect_equal(run_op("TfIdfVectorizer", tfidf("TF", 1, 2, 0), {strings({0}, {})})[0], f32({3}, {0, 0, 0}));
  EXPECT_EQ(error_code_of([&] { run_op("TfIdfVectorizer", tfidf("TF", 1, 2, 0), {i64({1}, {1})}); }), Code::TYPE);
  EXPECT_EQ(error_code_of([&] { run_op("TfIdfVectorizer", tfidf("TF", 1, 3, 0), {x}); }), Code::ATTRIBUTE);
}

Texts printed(const Tensor& x) { return texts(run_op("Cast", {{"to", int64_t{8}}}, {x})[0]); }

TEST(Text, CastToText) {
  EXPECT_EQ(printed(f32({7}, {1, -0.1f, 1e20f, 1e-7f, INFINITY, -INFINITY, NAN})),
            (Texts{"1.0", "-0.1", "1e+20", "1e-07", "INF", "-INF", "NaN"}));
  EXPECT_EQ(printed(f16({3}, {0.1f, 1000, 2})), (Texts{"0.1", "1000.0", "2.0"}));
  EXPECT_EQ(printed(bf16({1}, {0.1f})), (Texts{"0.1"}));
  EXPECT_EQ(printed(i64({2}, {INT64_MIN, 7})), (Texts{"-9223372036854775808", "7"}));
  EXPECT_EQ(printed(bools({2}, {1, 0})), (Texts{"True", "False"}));
  EXPECT_EQ(printed(u8({1}, {255})), (Texts{"255"}));
}

TEST(Text, CastFromText) {
  const auto parsed = [](int64_t to, const Texts& values) {
    return run_op("Cast", {{"to", to}}, {strings({static_cast<int64_t>(values.size())}, values)})[0];
  };
  expect_equal(parsed(1, {"1e-5", "+2.5", " 3 ", "inf", "-INF", "nan", "1E8"}),
               f32({7}, {1e-5f, 2.5f, 3, INFINITY, -INFINITY, NAN, 1e8f}));
  expect_equal(parsed(7, {"9223372036854775807", "-12", "100.5", "1e3"}), i64({4}, {INT64_MAX, -12, 100, 1000}));
  expect_equal(parsed(9, {"0", "1", "True"}), bools({3}, {0, 1, 1}));
  expect_equal(parsed(11, {"1e400", "-1e400", "1e-400"}), f64({3}, {INFINITY, -INFINITY, 0}));
  for (const char* bad : {"", "x1", "1 2", "+-1", "1e99999x", "--1"}) {
    EXPECT_EQ(error_code_of([&] { parsed(1, {bad}); }), Code::RUN_VALUE) << bad;
  }
  EXPECT_EQ(error_code_of([&] { parsed(7, {"1e30"}); }), Code::RUN_VALUE);
}

}  // namespace

}  // namespace deepjit
