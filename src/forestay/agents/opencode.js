// Forestay keeps the work of this agent from getting lost.
// Written by `forestay install opencode`; `forestay uninstall opencode` takes it away.
import { spawn } from "node:child_process"

const SCRIPT = "@SCRIPT@"
const RECORDED = new Set([
  "session.created", "session.idle", "session.error", "session.compacted", "message.updated",
])
const LONGEST = 30_000

// A part of an answer is reported many times while it grows; it is recorded when it is complete.
const isCompleteText = ({ type, properties }) =>
  type === "message.part.updated" && properties?.part?.type === "text" && properties.part.time?.end

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

export const Forestay = async ({ directory }) => {
  const briefings = new Map()
  // A sub-agent is a session with a parent; its events are recorded for the parent.
  const parents = new Map()
  const about = (id) => (parents.has(id) ? { directory, parent: parents.get(id) } : { directory })
  // One at a time, so that what happened first is written first.
  let last = Promise.resolve()
  const enqueue = (event, payload) => {
    last = last.then(() => send(event, payload, directory))
    return last
  }
  const begin = (id) => {
    if (!id || briefings.has(id) || parents.has(id)) return
    const payload = { hook_event_name: "SessionStart", sessionID: id, directory, source: "startup" }
    briefings.set(id, enqueue("SessionStart", payload))
  }
  return {
    event: async ({ event }) => {
      const info = event.properties?.info
      const id = event.properties?.sessionID ?? info?.sessionID ?? info?.id
      if (event.type === "session.created") {
        if (info?.parentID) parents.set(id, info.parentID)
        else begin(id)
      }
      if (RECORDED.has(event.type) || isCompleteText(event)) await enqueue(event.type, { ...event, ...about(id) })
    },
    "chat.message": async (input, output) => {
      begin(input.sessionID)
      await enqueue("chat.message", { i: input, o: output, ...about(input.sessionID) })
    },
    "tool.execute.before": async (input, output) => {
      await enqueue("tool.execute.before", { i: input, o: output, ...about(input.sessionID) })
    },
    "tool.execute.after": async (input, output) => {
      await enqueue("tool.execute.after", { i: input, o: output, ...about(input.sessionID) })
    },
    "experimental.chat.system.transform": async (input, output) => {
      begin(input.sessionID)
      const said = await (briefings.get(input.sessionID) ?? "")
      if (said) output.system.push(said)
    },
  }
}
