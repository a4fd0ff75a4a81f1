"""Parsing of documents in processes of their own. Only the child process imports a parser's library."""
