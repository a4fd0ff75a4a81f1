"""The face of chat clients: POST /v1/chat/completions and GET /v1/models, as OpenAI's API has them."""
