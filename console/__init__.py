"""The console: web pages for people. A client of the HTTP API through the SDK, in a process of its own."""
