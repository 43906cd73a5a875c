"""The MCP server: the façade as a few deep tools, some resources and prompts.

    catalogue   what is offered: names, schemas, descriptions; plain values
    desk        what each tool does, by the façade; knows nothing of the protocol
    answer      what comes back: values, the same as text that is fenced as data, questions, errors
    server      the official SDK: both protocol eras on top of the desk
    http        one more way in, for one user of one machine: loopback, a token, exact names

No rule is made here. The SDK takes a second to load, so nothing imports `server` or `http` but
the command that serves.
"""
