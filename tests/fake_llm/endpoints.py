"""Behaviours of chat endpoints as users of model servers and gateways have reported them in public."""

import json

from tests.fake_llm.behaviour import (
    Behaviour,
    Spoken,
    as_call,
    bare_list,
    cut_at_end,
    extra_keys,
    first_of,
    has_format,
    has_system,
    ignores_schema,
    numbers_as_strings,
    openai_error,
    refuse_if,
    refuses_formats,
    rename_keys,
    schema_of,
    thinks,
    trailing_commas,
    wrapped,
)

MAX_TOKENS_GONE = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
)
NO_TEMPERATURE = (
    "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported."
)
NO_STOP = "Unsupported parameter: 'stop' is not supported with this model."
GRAMMAR = "Failed to initialize samplers: failed to parse grammar"
AZURE_OLD = "response_format value as json_schema is enabled only for api versions 2024-08-01-preview and later"
LM_STUDIO = "'response_format.type' must be 'json_schema' or 'text'"
DROP_PARAMS = "To drop these, set `litellm.drop_params=True`"
ROLES = "Conversation roles must alternate user/assistant/user/assistant/..."

is_old_limit = refuse_if(lambda body: "max_tokens" in body, 400, openai_error(MAX_TOKENS_GONE, "max_tokens"))
is_cold = refuse_if(lambda body: "temperature" in body, 400, openai_error(NO_TEMPERATURE, "temperature"))
is_endless = refuse_if(lambda body: "stop" in body, 400, openai_error(NO_STOP, "stop"))


BEHAVIOURS: tuple[Behaviour, ...] = (
    Behaviour("OpenAI", "a JSON schema is followed"),
    Behaviour("OpenAI", "max_tokens is refused", is_old_limit),
    Behaviour("OpenAI", "temperature is refused", is_cold),
    Behaviour("OpenAI", "max_tokens and temperature are refused", first_of(is_old_limit, is_cold)),
    Behaviour("OpenAI", "stop sequences are refused", is_endless),
    Behaviour(
        "Anthropic",
        "stop sequences of white space are refused",
        refuse_if(
            lambda body: not all(stop.strip() for stop in body.get("stop", ())),
            400,
            "stop_sequences: each stop sequence must contain non-whitespace",
        ),
    ),
    Behaviour(
        "OpenAI",
        "strict mode refuses maxLength",
        refuse_if(
            lambda body: "maxLength" in schema_of(body),
            400,
            "Invalid schema for response_format 'answer': In context=('items',), 'maxLength' is not permitted.",
        ),
    ),
    Behaviour(
        "OpenAI",
        "the system role is refused",
        refuse_if(
            has_system,
            400,
            openai_error(
                "Unsupported value: 'messages[0].role' does not support 'system' with this model.", "messages"
            ),
        ),
    ),
    Behaviour(
        "OpenAI",
        "a refusal in place of an answer",
        speak=lambda *_: Spoken({"content": None, "refusal": "No."}),
        is_readable=False,
    ),
    Behaviour(
        "OpenAI",
        "all tokens go into hidden thoughts first",
        speak=thinks(room=1500, field_name="hidden"),
    ),
    Behaviour("Azure", "an old API version refuses JSON schemas", refuses_formats(400, AZURE_OLD, "json_schema")),
    Behaviour(
        "Azure",
        "an error that wraps another one",
        refuse_if(
            lambda body: "max_tokens" in body,
            400,
            {"error": {"code": "BadRequest", "innererror": {"message": MAX_TOKENS_GONE}, "message": "Bad request"}},
        ),
    ),
    Behaviour(
        "Azure",
        "the content filter refuses the question",
        lambda _: (400, {"error": {"code": "content_filter", "message": "The response was filtered", "status": 400}}),
        is_readable=False,
    ),
    Behaviour(
        "Azure",
        "content filter results beside the message",
        speak=lambda said, _: Spoken({"content": said, "content_filter_results": {"hate": {"filtered": False}}}),
    ),
    Behaviour("Ollama", "a code fence around JSON", speak=wrapped(lambda said: f"```json\n{said}\n```")),
    Behaviour("Ollama", "a code fence that is not closed", speak=wrapped(lambda said: f"```json\n{said}")),
    Behaviour("Ollama", "thoughts in tags", speak=wrapped(lambda said: f"<think>\nHm.\n</think>\n\n{said}")),
    Behaviour(
        "Ollama", "thoughts in the field reasoning", speak=lambda said, _: Spoken({"content": said, "reasoning": "Hm."})
    ),
    Behaviour(
        "Ollama",
        "an empty content beside reasoning",
        speak=lambda said, _: Spoken({"content": "", "reasoning": f"Hm. {said}"}),
    ),
    Behaviour(
        "Ollama", "the schema is ignored by a model of its cloud", speak=ignores_schema("Here is what I found: bees.")
    ),
    Behaviour(
        "Ollama", "an answer without a reason why it ended", speak=lambda said, _: Spoken({"content": said}, None)
    ),
    Behaviour("Ollama", "thoughts take every token of a small limit", speak=thinks(room=1500)),
    Behaviour(
        "LM Studio",
        "json_object is refused, JSON schemas are not",
        refuses_formats(400, {"error": LM_STUDIO}, "json_object"),
    ),
    Behaviour(
        "LM Studio",
        "both formats are refused",
        refuses_formats(400, {"error": "response_format is not supported by this engine"}),
    ),
    Behaviour("LM Studio", "prose before the JSON", speak=wrapped(lambda said: f"Sure! Here is the JSON:\n\n{said}")),
    Behaviour(
        "LM Studio",
        "the template has no system role",
        refuse_if(has_system, 400, {"error": f'Error rendering prompt with jinja template: "{ROLES}"'}),
    ),
    Behaviour(
        "LM Studio",
        "empty tool calls beside the content",
        speak=lambda said, _: Spoken({"content": said, "tool_calls": []}),
    ),
    Behaviour(
        "vLLM",
        "content null, the answer in reasoning_content",
        speak=lambda said, _: Spoken({"content": None, "reasoning_content": said}),
    ),
    Behaviour(
        "vLLM",
        "thoughts in reasoning_content",
        speak=lambda said, _: Spoken({"content": said, "reasoning_content": "Hm."}),
    ),
    Behaviour(
        "vLLM", "only the closing tag of thoughts", speak=wrapped(lambda said: f"Hm, let me see.\n</think>\n\n{said}")
    ),
    Behaviour(
        "vLLM",
        "drafts before the closing tag of thoughts",
        speak=wrapped(lambda said: f'Perhaps {{"facts": []}}?\n</think>\n{said}'),
    ),
    Behaviour(
        "vLLM",
        "the grammar engine refuses a keyword",
        refuse_if(
            lambda body: "maxItems" in schema_of(body),
            400,
            {
                "object": "error",
                "message": "The provided JSON schema contains features not supported by xgrammar.",
                "code": 400,
            },
        ),
    ),
    Behaviour(
        "vLLM",
        "Gemma's template has no system role",
        refuse_if(has_system, 400, {"error": {"message": f"{ROLES} {ROLES}", "type": "BadRequestError", "code": 400}}),
    ),
    Behaviour("vLLM", "an older template has no system role", refuse_if(has_system, 500, "System role not supported")),
    Behaviour(
        "vLLM",
        "an unknown field is refused",
        refuse_if(
            lambda body: "reasoning_effort" in body,
            400,
            {
                "object": "error",
                "message": (
                    "[{'type': 'extra_forbidden', 'loc': ('body', 'reasoning_effort'), 'msg': 'Extra "
                    "inputs are not permitted'}]"
                ),
            },
        ),
        settings={"reasoning_effort": "low"},
    ),
    Behaviour(
        "llama.cpp",
        "the grammar of bounds cannot be parsed",
        refuse_if(
            lambda body: "maxLength" in schema_of(body),
            400,
            {"error": {"code": 400, "message": GRAMMAR, "type": "invalid_request_error"}},
        ),
    ),
    Behaviour(
        "llama.cpp",
        "no grammar can be parsed",
        refuse_if(lambda body: has_format(body, "json_schema"), 500, {"error": {"code": 500, "message": GRAMMAR}}),
    ),
    Behaviour(
        "llama.cpp", "the schema is dropped without an error", speak=ignores_schema("The user keeps bees, I believe.")
    ),
    Behaviour("llama.cpp", "an answer that runs on until it is cut", speak=cut_at_end),
    Behaviour(
        "llama.cpp",
        "white space until the limit",
        speak=lambda *_: Spoken({"content": "{" + "\n" * 900}, "length"),
        is_readable=False,
    ),
    Behaviour("llama.cpp", "line breaks in texts", speak=wrapped(lambda said: said.replace(" the ", "\nthe "))),
    Behaviour(
        "LiteLLM",
        "response_format is refused by name",
        refuses_formats(
            400,
            (
                f"litellm.UnsupportedParamsError: together_ai does not support parameters: "
                f"['response_format'], for model=m. {DROP_PARAMS}"
            ),
        ),
    ),
    Behaviour(
        "LiteLLM",
        "a parameter is refused as an error of its own",
        refuse_if(
            lambda body: "temperature" in body,
            500,
            f"litellm.UnsupportedParamsError: model does not support parameters: ['temperature']. {DROP_PARAMS}",
        ),
    ),
    Behaviour(
        "LiteLLM",
        "the answer as a call of a tool",
        speak=as_call,
        refuse=refuses_formats(400, "response_format is not supported: use tools"),
    ),
    Behaviour(
        "LiteLLM",
        "an unsupported alternation of roles",
        refuse_if(has_system, 400, f"litellm.BadRequestError: Hosted_vllmException - {ROLES}"),
    ),
    Behaviour(
        "OpenRouter",
        "no provider has the parameters",
        refuse_if(
            lambda body: has_format(body, "json_schema"),
            404,
            {"error": {"message": "No endpoints found that support the requested parameters.", "code": 404}},
        ),
    ),
    Behaviour(
        "OpenRouter",
        "no provider has the tools either",
        refuse_if(
            lambda body: has_format(body) or "tools" in body,
            404,
            {"error": {"message": "No endpoints found that support tool use or response_format.", "code": 404}},
        ),
    ),
    Behaviour("OpenRouter", "an error within 200", speak=lambda *_: Spoken({}), is_readable=False),
    Behaviour("OpenRouter", "the opening fence alone", speak=wrapped(lambda said: f"```json\n{said}\n")),
    Behaviour(
        "DeepSeek",
        "JSON schemas are unavailable",
        refuses_formats(400, "This response_format type is unavailable now", "json_schema"),
    ),
    Behaviour(
        "DeepSeek",
        "JSON schemas cannot be deserialized",
        refuses_formats(
            422,
            (
                "Failed to deserialize the JSON body into the target type: response_format: "
                "response_format.type `json_schema` is unavailable now"
            ),
            "json_schema",
        ),
    ),
    Behaviour(
        "DeepSeek",
        "json_object gives an empty content now and then",
        speak=lambda *_: Spoken({"content": ""}),
        is_readable=False,
    ),
    Behaviour(
        "Groq",
        "a model cannot give JSON schemas",
        refuses_formats(400, "This model does not support response format `json_schema`.", "json_schema"),
    ),
    Behaviour(
        "Groq",
        "its check of JSON fails",
        refuses_formats(
            400,
            {
                "error": {
                    "message": "Failed to generate JSON. Please adjust your prompt.",
                    "code": "json_validate_failed",
                    "failed_generation": "{",
                }
            },
        ),
    ),
    Behaviour(
        "Gemini",
        "a keyword of the schema is unknown",
        refuse_if(
            lambda body: "additionalProperties" in schema_of(body),
            400,
            [
                {
                    "error": {
                        "code": 400,
                        "message": (
                            'Invalid JSON payload received. Unknown name "additionalProperties" at '
                            "'generation_config.response_schema': Cannot find field."
                        ),
                        "status": "INVALID_ARGUMENT",
                    }
                }
            ],
        ),
    ),
    Behaviour("Gemini", "a fence in structured output", speak=wrapped(lambda said: f"```json\n{said}\n```\n")),
    Behaviour(
        "Anthropic",
        "the format is ignored without an error",
        speak=wrapped(
            lambda said: f"I've read the message. Here is my answer:\n\n```json\n{said}\n```\n\nLet me know!"
        ),
    ),
    Behaviour(
        "Mistral",
        "content as a list of parts",
        speak=lambda said, _: Spoken({"content": [{"type": "text", "text": said}]}),
    ),
    Behaviour(
        "Mistral", "thoughts in brackets", speak=wrapped(lambda said: f"[THINK]Perhaps it is about bees.[/THINK]{said}")
    ),
    Behaviour(
        "Mistral",
        "an unknown field answers 422",
        refuse_if(
            lambda body: "max_completion_tokens" in body,
            422,
            {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", "max_completion_tokens"],
                        "msg": "Extra inputs are not permitted",
                    }
                ]
            },
        ),
        settings={"length_parameter": "max_completion_tokens"},
    ),
    Behaviour(
        "xAI",
        "response_format is unsupported",
        refuses_formats(
            400,
            {
                "code": "Client specified an invalid argument",
                "error": "The response_format parameter is unsupported at the moment. Leave it unset.",
            },
        ),
    ),
    Behaviour(
        "xAI",
        "reasoning effort is refused",
        refuse_if(
            lambda body: "reasoning_effort" in body,
            400,
            {"error": "Argument not supported on this model: reasoningEffort"},
        ),
        settings={"reasoning_effort": "high"},
    ),
    Behaviour(
        "TGI",
        "an unknown variant of the format",
        refuses_formats(
            422,
            (
                "Failed to deserialize the JSON body into the target type: response_format.type: "
                "unknown variant `json_schema`, expected `json_object` or `regex`"
            ),
            "json_schema",
        ),
    ),
    Behaviour(
        "gpt-oss",
        "channels in the content",
        speak=wrapped(
            lambda said: (
                f'<|channel|>analysis<|message|>Perhaps {{"a": '
                f"1}}.<|end|><|start|>assistant<|channel|>final<|message|>{said}"
            )
        ),
    ),
    Behaviour(
        "gpt-oss",
        "channels without their marks",
        speak=wrapped(lambda said: f"analysisThe user says it.assistantfinal{said}"),
    ),
    Behaviour("small model", "a bare list", speak=wrapped(bare_list)),
    Behaviour("small model", "trailing commas", speak=wrapped(trailing_commas)),
    Behaviour("small model", "names and choices in another case", speak=wrapped(rename_keys)),
    Behaviour("small model", "numbers as strings", speak=wrapped(numbers_as_strings)),
    Behaviour("small model", "fields that nobody asked for", speak=wrapped(extra_keys)),
    Behaviour(
        "small model", "single quotes", speak=wrapped(lambda said: said if "'" in said else said.replace('"', "'"))
    ),
    Behaviour(
        "small model",
        "the arguments of a call as text",
        speak=wrapped(lambda said: f'{{"name": "answer", "arguments": {said}}}'),
    ),
    Behaviour("small model", "a byte order mark", speak=wrapped(lambda said: f"\ufeff{said}")),
    Behaviour("small model", "JSON in a string", speak=wrapped(json.dumps)),
    Behaviour("small model", "words alone", speak=wrapped(lambda _: "They talk about bees."), is_readable=False),
    Behaviour(
        "small model",
        "the question in place of an answer",
        speak=wrapped(lambda _: '{"message": "I keep bees."}'),
        is_readable=False,
    ),
    Behaviour(
        "small model",
        "the same words until the limit",
        speak=lambda *_: Spoken({"content": "the the " * 2000}, "length"),
        is_readable=False,
    ),
    Behaviour("gateway", "no count of tokens", speak=lambda said, _: Spoken({"content": said}, usage={})),
    Behaviour(
        "gateway",
        "tokens that nobody could have used",
        speak=lambda said, _: Spoken({"content": said}, usage={"prompt_tokens": 10**9, "completion_tokens": 10**9}),
    ),
    Behaviour(
        "gateway",
        "every request is refused without a reason",
        lambda _: (400, {"error": "Bad Request"}),
        is_readable=False,
    ),
    Behaviour(
        "gateway",
        "every parameter is refused, one after another",
        first_of(
            is_old_limit,
            is_cold,
            is_endless,
            refuses_formats(501, "Not implemented: structured outputs (response_format)"),
            refuse_if(lambda body: "tools" in body, 400, "tools are not supported"),
            refuse_if(has_system, 400, "system messages are not supported"),
        ),
    ),
)
