// Holdfast keeps the work of this agent from getting lost.
// Written by `holdfast install opencode`; `holdfast uninstall opencode` takes it away.
import { spawn } from "node:child_process"

const SCRIPT = "@SCRIPT@"
const HEARD = new Set([
  "session.created", "session.idle", "session.error", "session.compacted", "message.updated",
])
const LONGEST = 30_000

// The script says nothing and never fails, except at the start, when it prints a briefing.
const send = (event, payload, folder) =>
  new Promise((resolve) => {
    let said = ""
    const done = () => resolve(said)
    try {
      const child = spawn(SCRIPT, ["opencode", event], { cwd: folder, stdio: ["pipe", "pipe", "ignore"] })
      const timer = setTimeout(done, LONGEST)
      child.stdout.on("data", (part) => (said += part))
      child.on("error", done)
      child.on("close", () => { clearTimeout(timer); done() })
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(payload))
    } catch {
      done()
    }
  })

export const Holdfast = async ({ directory }) => {
  const briefings = new Map()
  // One at a time, so that what happened first is written first.
  let last = Promise.resolve()
  const tell = (event, payload) => {
    last = last.then(() => send(event, payload, directory))
    return last
  }
  const begin = (id) => {
    if (!id || briefings.has(id)) return
    const payload = { hook_event_name: "SessionStart", sessionID: id, directory, source: "startup" }
    briefings.set(id, tell("SessionStart", payload))
  }
  return {
    event: async ({ event }) => {
      if (event.type === "session.created" && !event.properties?.info?.parentID) {
        begin(event.properties?.info?.id ?? event.properties?.sessionID)
      }
      if (HEARD.has(event.type)) await tell(event.type, { ...event, directory })
    },
    "chat.message": async (input, output) => {
      begin(input.sessionID)
      await tell("chat.message", { i: input, o: output, directory })
    },
    "tool.execute.before": async (input, output) => {
      await tell("tool.execute.before", { i: input, o: output, directory })
    },
    "tool.execute.after": async (input, output) => {
      await tell("tool.execute.after", { i: input, o: output, directory })
    },
    "experimental.chat.system.transform": async (input, output) => {
      begin(input.sessionID)
      const said = await (briefings.get(input.sessionID) ?? "")
      if (said) output.system.push(said)
    },
  }
}
