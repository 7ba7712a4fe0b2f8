#include "headrace/request_decoder.hpp"

#include <string>
#include <string_view>
#include <vector>

#include "decode_fault.hpp"
#include "examples_signature.hpp"
#include "json_place.hpp"
#include "name_hints.hpp"

namespace headrace {

RequestDecoder::RequestDecoder(std::span<const std::byte> body, const SignatureSet &signatures,
                               const DecodeOptions &options)
    : body_(body), signatures_(signatures), options_(options) {
  if (options.method != Method::kPredict)
    examples_.emplace(decode_examples(body, &signatures, options));
}

std::uint64_t RequestDecoder::bound() const noexcept {
  if (!examples_)
    return decoded_bytes_bound(body_, signatures_);
  return *examples_ ? examples_->value().tensor_bytes() : 0;
}

Result<PredictRequest> RequestDecoder::decode(TensorSink &sink) const {
  return examples_ ? take_examples(sink) : decode_predict(body_, signatures_, options_, sink);
}

Error RequestDecoder::refuse(ErrorCode code, std::string message, std::string hint) const {
  const auto *const begin = reinterpret_cast<const char *>(body_.data());
  Faults faults;
  faults.set(code, begin + examples_->value().signature_at, std::move(message), std::move(hint));
  return to_error({begin, begin + body_.size()}, faults);
}

Result<PredictRequest> RequestDecoder::take_examples(TensorSink &sink) const {
  if (!*examples_)
    return examples_->error();
  const ExamplesRequest &request = examples_->value();
  const auto index = signatures_.find(request.signature_name);
  if (!index) {
    std::vector<std::string_view> names;
    for (const Signature &each : signatures_.all())
      names.emplace_back(each.name());
    return refuse(ErrorCode::kUnknownSignature,
                  "No signature was found with the name: " + excerpt(request.signature_name),
                  suggest(request.signature_name, names));
  }
  if (const auto defect = examples_defect(signatures_.all()[*index], options_.method))
    return refuse(ErrorCode::kStructure, *defect,
                  examples_signatures_hint(signatures_, options_.method));
  if (!request.write(sink, 0))
    return Error{ErrorCode::kTooLarge, kNoOffset, "examples",
                 "The examples, each with the context, need " +
                     std::to_string(request.tensor_bytes()) +
                     " bytes, which is more than a request may take"};
  PredictRequest decoded;
  decoded.signature_name = request.signature_name;
  decoded.signature_index = *index;
  decoded.rows = request.count();
  return decoded;
}

} // namespace headrace
