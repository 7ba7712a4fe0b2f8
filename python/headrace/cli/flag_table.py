"""Every flag of ``headrace serve``, as data: Headrace's own, and all of TensorFlow Serving's.

Spec: tfserving-rest section 15. The table in ``docs/moving-from-tensorflow-serving.md`` is held to
this one by a test.
"""

from __future__ import annotations

from headrace.cli.flags import (
    ADDRESS,
    BOOLEAN,
    BYTES,
    COUNT,
    FRACTION,
    INTEGER,
    LEVEL,
    PORT,
    SECONDS,
    TEXT,
    Flag,
    choice,
)
from headrace.config import (
    HttpConfig,
    LifecycleConfig,
    RequestConfig,
    SecurityConfig,
    WorkerConfig,
)

__all__ = ["HEADRACE_FLAGS", "TF_SERVING_FLAGS"]

_HTTP, _REQUESTS, _WORKERS, _LIFECYCLE, _SECURITY = (
    HttpConfig(),
    RequestConfig(),
    WorkerConfig(),
    LifecycleConfig(),
    SecurityConfig(),
)

HEADRACE_FLAGS = (
    Flag("config", TEXT, "", "configuration file in TOML; other flags win over what it says"),
    Flag(
        "listen",
        ADDRESS,
        None,
        "where to listen, in place of --rest_api_port; port 0: the kernel chooses; "
        f"with neither, {_HTTP.address}",
    ),
    Flag("tls_cert", TEXT, "", "certificate chain in PEM: HTTPS in place of HTTP; with --tls_key"),
    Flag("tls_key", TEXT, "", "its private key in PEM"),
    Flag(
        "auth_token_file",
        TEXT,
        "",
        "bearer tokens, one a line; a request without one of them: 401",
    ),
    Flag("auth_health", BOOLEAN, _SECURITY.auth_health, "ask for a token for health, too"),
    Flag(
        "in_process",
        BOOLEAN,
        _WORKERS.in_process,
        "run models on threads of this process instead of processes of their own",
    ),
    Flag(
        "device",
        TEXT,
        "",
        "device that models run on, such as cpu or gpu:0; empty: the runtime's choice",
    ),
    Flag(
        "run_timeout",
        SECONDS,
        _WORKERS.run_timeout_s,
        "a worker one of whose runs takes longer is taken to hang, and is replaced",
    ),
    Flag(
        "max_batch_rows",
        COUNT,
        _WORKERS.batching.max_rows,
        "rows of waiting requests stacked into one run; one request may have more",
    ),
    Flag(
        "num_batch_threads",
        COUNT,
        None,
        "batches that run at once in one worker; without it, one. A Python model has to say that "
        "it is thread-safe",
    ),
    Flag(
        "max_in_flight_rows",
        COUNT,
        _REQUESTS.max_in_flight_rows,
        "rows accepted and not answered, per model version; beyond: 503",
    ),
    Flag(
        "max_in_flight_bytes",
        BYTES,
        _REQUESTS.max_in_flight_bytes,
        "bytes of tensors accepted and not answered, per model version; beyond: 503",
    ),
    Flag(
        "max_body_bytes",
        BYTES,
        _HTTP.max_body_bytes,
        "length of a request body; beyond: 413",
    ),
    Flag(
        "max_total_body_bytes",
        BYTES,
        _HTTP.max_total_body_bytes,
        "all request bodies received and not answered together; beyond: 503",
    ),
    Flag(
        "max_connections",
        COUNT,
        _HTTP.max_connections,
        "connections open at once; beyond: 503",
    ),
    Flag(
        "max_header_bytes",
        BYTES,
        _HTTP.max_header_bytes,
        "length of a request line with its headers; beyond: 431",
    ),
    Flag(
        "max_reply_bytes",
        BYTES,
        _WORKERS.max_reply_bytes,
        "bytes of one request's outputs; beyond, it fails with an error that names the output",
    ),
    Flag(
        "max_json_depth",
        COUNT,
        _REQUESTS.max_json_depth,
        "nesting of members of a body that are ignored; tensors themselves nest 64 deep at most",
    ),
    Flag(
        "pretty",
        BOOLEAN,
        _REQUESTS.pretty,
        "lay predictions out as TensorFlow Serving does, instead of compactly",
    ),
    Flag(
        "non_finite",
        choice("token", "null", "string", "error"),
        _REQUESTS.non_finite,
        'what NaN and the infinities become in answers: NaN, null, "NaN", or an error that '
        "names the output and the place",
    ),
    Flag(
        "int64",
        choice("number", "string"),
        _REQUESTS.int64,
        "how 64-bit integers stand in answers; JavaScript rounds them when they are numbers",
    ),
    Flag(
        "invalid_utf8",
        choice("error", "b64"),
        _REQUESTS.invalid_utf8,
        'what a string output that is not UTF-8 becomes: an error that names it, or {"b64": ...}',
    ),
    Flag(
        "request_ring_bytes",
        BYTES,
        _WORKERS.request_ring_bytes,
        "shared memory of each worker for requests; a larger request travels by itself",
    ),
    Flag(
        "reply_ring_bytes",
        BYTES,
        _WORKERS.reply_ring_bytes,
        "shared memory of each worker for answers; a larger answer travels by itself",
    ),
    Flag(
        "idle_timeout",
        SECONDS,
        _HTTP.idle_timeout_s,
        "a connection without a request is closed after this",
    ),
    Flag(
        "header_timeout",
        SECONDS,
        _HTTP.header_timeout_s,
        "from the first byte of a request to the end of its headers; beyond: 408",
    ),
    Flag(
        "body_timeout",
        SECONDS,
        _HTTP.body_timeout_s,
        "how long a request body may take besides a second per 16 KiB; beyond: 408",
    ),
    Flag(
        "drain_timeout",
        SECONDS,
        _LIFECYCLE.drain_s,
        "how long running requests may take to finish after SIGTERM",
    ),
    Flag("log_level", LEVEL, "info", "debug, info, warning or error"),
    Flag("strict", BOOLEAN, False, "refuse unknown flags instead of warning"),
)

_NO_GRPC = "gRPC is not served"
_NO_TFLITE = "TensorFlow Lite models are not served"
_OWN_PROCESS = "each version loads and unloads in a process of its own"
_BATCHES = "requests that wait are always batched; see --max_batch_rows"
_NO_WARMUP = "recorded requests are not replayed when a model loads"
_XLA = "XLA is left as TensorFlow's environment variables set it"

TF_SERVING_FLAGS = (
    Flag("port", PORT, 8500, "port of gRPC", _NO_GRPC, (0,)),
    Flag("grpc_socket_path", TEXT, "", "Unix socket of gRPC", _NO_GRPC, ("",)),
    Flag(
        "rest_api_port",
        PORT,
        0,
        "port of the REST API, on every interface; 0 is as if it were not given",
    ),
    Flag(
        "rest_api_num_threads",
        INTEGER,
        None,
        "threads of the REST API (4 per CPU)",
        "an event loop serves every connection, so no request waits for a thread",
    ),
    Flag(
        "rest_api_timeout_in_ms",
        INTEGER,
        30_000,
        "milliseconds from a request's arrival to its answer, else 504; 0 or less: no limit",
    ),
    Flag(
        "rest_api_enable_cors_support",
        BOOLEAN,
        False,
        "CORS headers on every answer",
    ),
    Flag("model_name", TEXT, "default", "name of the single model"),
    Flag(
        "model_base_path",
        TEXT,
        "",
        "its directory of numbered versions; a relative path is taken from here",
    ),
    Flag(
        "model_config_file",
        TEXT,
        "",
        "ModelServerConfig in text format; takes the place of the two above",
    ),
    Flag(
        "model_config_file_poll_wait_seconds",
        INTEGER,
        0,
        "seconds between readings of that file, or of the --config file that lists the models; "
        "0 or less: once",
    ),
    Flag(
        "file_system_poll_wait_seconds",
        INTEGER,
        1,
        "seconds between scans for versions; 0 or less: one scan at the start",
    ),
    Flag(
        "allow_version_labels_for_unavailable_models",
        BOOLEAN,
        False,
        "labels may point at versions that are not loaded",
        "they always may, and answer once their version is loaded",
        (True,),
    ),
    Flag("enable_batching", BOOLEAN, False, "batch requests", _BATCHES, (True,)),
    Flag("batching_parameters_file", TEXT, "", "BatchingParameters", _BATCHES, ("",)),
    Flag(
        "enable_per_model_batching_parameters",
        BOOLEAN,
        False,
        "read batching_params.pbtxt beside each model",
        _BATCHES,
        (False,),
    ),
    Flag("num_load_threads", INTEGER, 0, "threads that load models", _OWN_PROCESS, (0,)),
    Flag("num_unload_threads", INTEGER, 0, "threads that unload models", _OWN_PROCESS, (0,)),
    Flag("max_num_load_retries", INTEGER, 5, "loads tried again after the first failure"),
    Flag("load_retry_interval_micros", INTEGER, 60_000_000, "microseconds between them"),
    Flag(
        "flush_filesystem_caches",
        BOOLEAN,
        True,
        "drop a model's files from the page cache once it is loaded",
        "the page cache is left to the kernel",
        (False,),
    ),
    Flag("enable_model_warmup", BOOLEAN, True, "replay recorded requests", _NO_WARMUP, (False,)),
    Flag(
        "num_request_iterations_for_warmup",
        INTEGER,
        0,
        "times that each of them is replayed",
        _NO_WARMUP,
        (0,),
    ),
    Flag(
        "monitoring_config_file",
        TEXT,
        "",
        "MonitoringConfig in text format: where TensorFlow Serving's page of metrics is",
    ),
    Flag("ssl_config_file", TEXT, "", "SSLConfig of gRPC", _NO_GRPC, ("",)),
    Flag("use_alts_credentials", BOOLEAN, False, "ALTS on gRPC", _NO_GRPC, (False,)),
    Flag(
        "platform_config_file",
        TEXT,
        "",
        "PlatformConfigMap",
        "what a model's directory holds decides what runs it",
        ("",),
    ),
    Flag(
        "tensorflow_session_parallelism",
        INTEGER,
        0,
        "sets those of the next two that are 0; all three together exclude each other",
    ),
    Flag(
        "tensorflow_intra_op_parallelism",
        INTEGER,
        _WORKERS.intra_op_threads,
        "threads inside one operation; 0: one per core",
    ),
    Flag(
        "tensorflow_inter_op_parallelism",
        INTEGER,
        _WORKERS.inter_op_threads,
        "threads for independent operations; 0: one per core",
    ),
    Flag(
        "tensorflow_session_config_file",
        TEXT,
        "",
        "ConfigProto",
        "session options are Headrace's own",
        ("",),
    ),
    Flag(
        "per_process_gpu_memory_fraction",
        FRACTION,
        0.0,
        "share of the GPU's memory taken at the start",
        "GPU memory is taken as it is needed",
        (0.0,),
    ),
    Flag(
        "saved_model_tags",
        TEXT,
        ",".join(_WORKERS.saved_model_tags),
        "tags of the graph to load, with commas between",
    ),
    Flag(
        "enable_signature_method_name_check",
        BOOLEAN,
        False,
        "refuse signatures whose method_name does not fit the verb",
        "method names are not checked",
        (False,),
    ),
    Flag(
        "remove_unused_fields_from_bundle_metagraph",
        BOOLEAN,
        True,
        "drop the graph's definition once loaded",
        "the graph's definition lives in the worker and goes with it",
        (True,),
    ),
    Flag("prefer_tflite_model", BOOLEAN, False, "load model.tflite", _NO_TFLITE, (False,)),
    Flag("num_tflite_pools", INTEGER, None, "pools (1 per CPU)", _NO_TFLITE),
    Flag("num_tflite_interpreters_per_pool", INTEGER, 1, "interpreters", _NO_TFLITE, (1,)),
    Flag("xla_cpu_compilation_enabled", BOOLEAN, False, "XLA on the CPU", _XLA, (False,)),
    Flag("xla_gpu_compilation_enabled", BOOLEAN, False, "XLA on GPUs", _XLA, (False,)),
    Flag(
        "mixed_precision",
        TEXT,
        "",
        "bfloat16: rewrite the graph for it",
        "a model runs in its own precision",
        ("",),
    ),
    Flag("enable_profiler", BOOLEAN, True, "profiler service on gRPC", _NO_GRPC, (False,)),
    Flag("grpc_max_threads", INTEGER, None, "threads of gRPC (4 per CPU)", _NO_GRPC),
    Flag("grpc_channel_arguments", TEXT, "", "options of gRPC", _NO_GRPC, ("",)),
    Flag(
        "enable_grpc_healthcheck_service",
        BOOLEAN,
        False,
        "health service on gRPC",
        "gRPC is not served; /healthz and /readyz answer on the REST port",
        (False,),
    ),
    Flag(
        "thread_pool_factory_config_file",
        TEXT,
        "",
        "ThreadPoolFactoryConfig",
        "TensorFlow's own thread pools are used",
        ("",),
    ),
    Flag("skip_initialize_tpu", BOOLEAN, False, "leave TPUs alone", "TPUs are not used", (True,)),
    Flag(
        "enable_serialization_as_tensor_content",
        BOOLEAN,
        False,
        "packed tensors in gRPC answers",
        _NO_GRPC,
        (False,),
    ),
)
