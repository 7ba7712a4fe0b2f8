// The vectors of examples.jsonl, and a reader of serialized Examples that shares no code with the
// writer. Format: tests/vectors/README.md.
#pragma once

#include <algorithm>
#include <cstdio>

#include "decode_case.hpp"
#include "headrace/json_examples.hpp"

namespace headrace::test {

struct Feature {
  std::string kind = "none";
  std::vector<std::string> values; ///< in the vectors' spelling, strings as they are
  friend bool operator==(const Feature &, const Feature &) = default;
};

using Features = std::map<std::string, Feature>;

/// Reads messages field by field. Throws std::runtime_error where the bytes are no message.
class WireReader {
public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  bool at_end() const { return bytes_.empty(); }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80)
        return value;
    }
    throw std::runtime_error("a varint that does not end");
  }
  /// The next field, which is to be length-delimited: its number and contents.
  std::pair<std::uint64_t, std::string_view> field() {
    const std::uint64_t tag = varint();
    if (tag % 8 != 2)
      throw std::runtime_error("a field that is not length-delimited");
    const std::uint64_t size = varint();
    return {tag / 8, take(size)};
  }
  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size())
      throw std::runtime_error("a field beyond the end of its message");
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

private:
  std::string_view bytes_;
};

inline std::string hex_of(std::string_view little_endian) {
  std::string hex;
  for (std::size_t i = little_endian.size(); i-- > 0;) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(little_endian[i]));
    hex += digits;
  }
  return hex;
}

inline Feature read_feature(std::string_view bytes) {
  Feature feature;
  WireReader message(bytes);
  while (!message.at_end()) {
    const auto [kind, list_bytes] = message.field();
    feature = {std::string(kind == 1 ? "bytes" : kind == 2 ? "float" : "int64"), {}};
    WireReader list(list_bytes);
    while (!list.at_end()) {
      const auto [number, contents] = list.field();
      if (number != 1 || kind > 3)
        throw std::runtime_error("an unknown field");
      WireReader packed(contents);
      if (kind == 1)
        feature.values.emplace_back(contents);
      while (kind != 1 && !packed.at_end())
        feature.values.push_back(kind == 2
                                     ? hex_of(packed.take(4))
                                     : std::to_string(static_cast<std::int64_t>(packed.varint())));
    }
  }
  return feature;
}

/// Of entries with the same name the last counts, also over several Features messages.
inline Features read_example(std::string_view bytes) {
  Features features;
  WireReader example(bytes);
  while (!example.at_end()) {
    const auto [number, contents] = example.field();
    if (number != 1)
      throw std::runtime_error("an unknown field of an Example");
    WireReader entries(contents);
    while (!entries.at_end()) {
      WireReader entry(entries.field().second);
      const auto [key, name] = entry.field();
      const auto [value, feature] = entry.field();
      if (key != 1 || value != 2 || !entry.at_end())
        throw std::runtime_error("an entry without key or value");
      features.insert_or_assign(std::string(name), read_feature(feature));
    }
  }
  return features;
}

struct ExampleCase {
  std::string id;
  std::string body;
  DecodeOptions options;
  std::vector<std::string> float_features;
  Expectation expect; ///< of an error only
  std::optional<std::string> signature_name;
  Features context;
  std::vector<Features> examples;

  SignatureSet signatures() const {
    std::vector<Signature> all;
    all.emplace_back("serving_default", Signature::Specs(), Signature::Specs(), float_features);
    return SignatureSet(std::move(all));
  }
};

inline Features features_of(const Json &json) {
  Features features;
  for (const auto [name, value] : json.get_object()) {
    Feature feature;
    const Json kind = value["kind"].value();
    if (!kind.is_null())
      feature.kind = text(kind);
    for (const Json item : value["values"].get_array())
      feature.values.push_back(!item.is_string()         ? simdjson::minify(item)
                               : feature.kind == "bytes" ? from_base64(text(item))
                                                         : text(item));
    features.emplace(std::string(name), std::move(feature));
  }
  return features;
}

inline std::vector<ExampleCase> load_example_cases() {
  std::ifstream lines(HEADRACE_TEST_VECTORS "/examples.jsonl");
  if (!lines)
    throw std::runtime_error("no file of examples");
  simdjson::dom::parser parser;
  std::vector<ExampleCase> cases;
  for (std::string line; std::getline(lines, line);) {
    const Json json = parser.parse(line).value();
    ExampleCase one;
    Json found;
    one.id = text(json["id"].value());
    one.body = json["body"].get(found) == simdjson::SUCCESS
                   ? text(found)
                   : from_base64(text(json["body_b64"].value()));
    Json options;
    if (json["options"].get(options) == simdjson::SUCCESS) {
      if (options["float_features"].get(found) == simdjson::SUCCESS)
        for (const Json name : found.get_array())
          one.float_features.push_back(text(name));
      if (options["max_depth"].get(found) == simdjson::SUCCESS)
        one.options.max_depth = found.get_uint64().value();
      one.options.finite_only = options["finite_only"].get(found) == simdjson::SUCCESS;
    }
    const Json expect = json["expect"].value();
    if (expect["error"].get(found) == simdjson::SUCCESS) {
      one.expect = expectation_of(expect);
    } else {
      if (expect["signature_name"].get(found) == simdjson::SUCCESS)
        one.signature_name = text(found);
      if (expect["context"].get(found) == simdjson::SUCCESS)
        one.context = features_of(found);
      for (const Json example : expect["examples"].get_array())
        one.examples.push_back(features_of(example));
    }
    cases.push_back(std::move(one));
  }
  return cases;
}

/// What is wrong with an error; empty: it is what was expected.
inline std::string judge_error(const Expectation &expect, const Error &error) {
  for (const std::string &part : expect.contains)
    if (error.message.find(part) == std::string::npos)
      return "no '" + part + "' in: " + error.message;
  if (expect.code && *expect.code != name_of(error.code))
    return "code " + std::string(name_of(error.code));
  if (expect.offset && *expect.offset != error.offset)
    return "offset " + std::to_string(error.offset);
  if (expect.path && *expect.path != error.path)
    return "path " + error.path;
  return "";
}

/// What is wrong with a result; empty: it is what the case says.
inline std::string judge(const ExampleCase &one, const Result<ExamplesRequest> &result) {
  if (!result)
    return one.expect.error ? judge_error(one.expect, result.error()) : result.error().message;
  if (one.expect.error)
    return "no error";
  const ExamplesRequest &request = result.value();
  if (one.signature_name && *one.signature_name != request.signature_name)
    return "signature " + request.signature_name;
  if (read_example(request.context.view()) != one.context)
    return "another context";
  HeapSink sink(1);
  if (!request.write(sink, 0))
    return "the sink is full";
  const HeapSink::Tensor &tensor = sink.tensors()[0];
  if (tensor.dtype != DType::kString || tensor.shape.rank() != 1 ||
      tensor.shape[0] != one.examples.size() || tensor.bytes != request.tensor_bytes())
    return "another tensor";
  for (std::size_t i = 0; i < one.examples.size(); ++i) {
    Features expected = one.examples[i];
    expected.insert(one.context.begin(), one.context.end()); // the example's own win
    if (read_example(tensor.view().string_at(i)) != expected)
      return "another example " + std::to_string(i);
  }
  return "";
}

} // namespace headrace::test
