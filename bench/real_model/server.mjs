// A small OpenAI-compatible server: POST /v1/chat/completions and GET /v1/models over one GGUF file, by llama.cpp.
//   node server.mjs MODEL.gguf [--no-grammar]
// It prints its port, and one JSON line for each answer to stderr. One thread answers one request after the other.
import {createServer} from "node:http";
import {basename} from "node:path";
import {getLlama, LlamaChat} from "node-llama-cpp";

const [file, ...flags] = process.argv.slice(2);
const MODEL = basename(file, ".gguf");
const CONTEXT = 8192;
const MAX_BODY = 1 << 20;
const usesGrammar = !flags.includes("--no-grammar");
// Two threads would wait for each other in busy loops, which is slow on a machine that does other work too.
const llama = await getLlama({gpu: false, build: "never", skipDownload: true, maxThreads: 1});
const model = await llama.loadModel({modelPath: file});
const context = await model.createContext({contextSize: CONTEXT, threads: 1});
const chat = new LlamaChat({contextSequence: context.getSequence()});
let turn = Promise.resolve();

class Refusal extends Error {
    constructor(status, code, message) {
        super(message);
        this.status = status;
        this.code = code;
    }
}

async function readBody(request) {
    const chunks = [];
    let size = 0;
    for await (const chunk of request) {
        size += chunk.length;
        if (size > MAX_BODY)
            throw new Refusal(413, "too_large", `the body has more than ${MAX_BODY} bytes`);
        chunks.push(chunk);
    }
    try {
        return JSON.parse(Buffer.concat(chunks).toString("utf8"));
    } catch {
        throw new Refusal(400, "invalid_json", "the body is no JSON");
    }
}

// The grammar knows neither anyOf nor the bounds of an integer: write them as oneOf and as an enum.
function prepareSchema(node) {
    if (Array.isArray(node))
        return node.map(prepareSchema);
    if (node === null || typeof node !== "object")
        return node;
    const {anyOf, ...rest} = node;
    const prepared = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, prepareSchema(value)]));
    if (anyOf !== undefined)
        return {...prepared, oneOf: prepareSchema(anyOf)};
    const {type, minimum, maximum} = node;
    if (type === "integer" && maximum - minimum <= 100)
        return {enum: Array.from({length: maximum - minimum + 1}, (_, at) => minimum + at)};
    return prepared;
}

async function grammarOf({response_format: format}) {
    if (!usesGrammar || format === undefined || format.type === "text")
        return undefined;
    try {
        return format.type === "json_object"
            ? await llama.getGrammarFor("json")
            : await llama.createGrammarForJsonSchema(prepareSchema(format.json_schema.schema));
    } catch (error) {
        throw new Refusal(400, "invalid_schema", `the schema cannot be used: ${error.message}`);
    }
}

function historyOf({messages}) {
    if (!Array.isArray(messages) || messages.length === 0)
        throw new Refusal(400, "no_messages", "messages must be a list with at least one message");
    const types = {system: "system", developer: "system", user: "user"};
    const history = messages.map(({role, content}) => {
        const text = typeof content === "string" ? content : content.map((part) => part.text ?? "").join("");
        return role === "assistant" ? {type: "model", response: [text]} : {type: types[role] ?? "user", text};
    });
    return [...history, {type: "model", response: []}];
}

async function complete(body, signal, onText) {
    const chatHistory = historyOf(body);
    const grammar = await grammarOf(body);
    const asked = chat.chatWrapper.generateContextState({chatHistory}).contextText.tokenize(model.tokenizer).length;
    const maxTokens = body.max_tokens ?? body.max_completion_tokens ?? CONTEXT - asked;
    if (maxTokens < 1 || asked + maxTokens > CONTEXT)
        throw new Refusal(400, "context_length_exceeded", `${asked} + ${maxTokens} tokens exceed ${CONTEXT}`);
    const {temperature = 0, stop = [], seed = 7} = body;
    const before = chat.sequence.tokenMeter.getState();
    const {response, metadata} = await chat.generateResponse(chatHistory, {
        maxTokens, temperature, seed, grammar, signal, stopOnAbortSignal: true,
        customStopTriggers: [stop].flat(), onTextChunk: onText,
    });
    const written = chat.sequence.tokenMeter.diff(before).usedOutputTokens;
    return {
        text: response,
        finish: metadata.stopReason === "maxTokens" ? "length" : "stop",
        usage: {prompt_tokens: asked, completion_tokens: written, total_tokens: asked + written},
    };
}

async function answerChat(request, response) {
    const body = await readBody(request);
    const gone = new AbortController();
    response.on("close", () => gone.abort());
    const id = `chatcmpl-${Date.now().toString(36)}`;
    const head = {id, created: Math.floor(Date.now() / 1000), model: MODEL};
    const send = (choices, usage) => {
        if (!response.headersSent)
            response.writeHead(200, {"content-type": "text/event-stream"});
        response.write(`data: ${JSON.stringify({...head, object: "chat.completion.chunk", choices, usage})}\n\n`);
    };
    const onText = body.stream && ((content) => send([{index: 0, delta: {content}, finish_reason: null}]));
    const before = turn;
    const answered = before.then(() => gone.signal.aborted ? null : complete(body, gone.signal, onText || undefined));
    turn = answered.catch(() => undefined);
    const answer = await answered;
    if (answer === null)
        return;
    const {text, finish, usage} = answer;
    console.error(JSON.stringify({finish, ...usage, task: /Task: (\S+)/.exec(JSON.stringify(body.messages))?.[1], text}));
    if (!body.stream)
        return sendJson(response, 200, {...head, object: "chat.completion", usage, choices: [
            {index: 0, message: {role: "assistant", content: text}, finish_reason: finish},
        ]});
    send([{index: 0, delta: {}, finish_reason: finish}]);
    if (body.stream_options?.include_usage)
        send([], usage);
    response.end("data: [DONE]\n\n");
}

function sendJson(response, status, value) {
    response.writeHead(status, {"content-type": "application/json"}).end(JSON.stringify(value));
}

createServer(async (request, response) => {
    try {
        if (request.url === "/ready")
            sendJson(response, 200, {});
        else if (request.method === "GET" && request.url === "/v1/models")
            sendJson(response, 200, {object: "list", data: [{id: MODEL, object: "model", owned_by: "local"}]});
        else if (request.method === "POST" && request.url === "/v1/chat/completions")
            await answerChat(request, response);
        else
            throw new Refusal(404, "not_found", "use GET /v1/models or POST /v1/chat/completions");
    } catch (error) {
        const {status = 500, code = "failed", message} = error;
        if (response.headersSent)
            response.destroy();
        else
            sendJson(response, status, {error: {message, code, type: status < 500 ? "invalid_request_error" : "server_error"}});
    }
}).listen(0, "127.0.0.1", function () {
    console.log(this.address().port);
});
