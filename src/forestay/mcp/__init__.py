"""The MCP server: the façade as a few deep tools, some resources and prompts.

    tool_schemas   what is offered: names, schemas, descriptions; plain values
    schema_check   checks arguments against the schema of a tool
    tools          what each tool does, by calls of the façade; independent of the protocol
    resources      resources and prompts, read-only
    responses      answers: values, the same as text that is fenced as data, questions, errors
    server         the official SDK, with both protocol versions, on top of `tools`
    http           the HTTP transport for one user of one machine: loopback, a token, exact names

All rules are in the engine. The SDK takes a second to load, so only the command that serves
imports `server` or `http`.
"""
