// Memory for OpenCode: recall at the first prompt of a session, turns stored when it is idle.
import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"

// Run `mnema hook` with an event on stdin. A memory that does not answer never stops the session.
function runHook(event) {
  return new Promise((resolve) => {
    const child = spawn("mnema", ["hook"], { stdio: ["pipe", "pipe", "inherit"], timeout: 10_000 })
    let output = ""
    child.stdout.on("data", (chunk) => (output += chunk))
    child.on("error", () => resolve(""))
    child.on("close", () => resolve(output))
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(event))
  })
}

function textOf(parts) {
  return parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text).join("\n")
}

// What a hook found, "" for anything but its answer.
function readContext(output) {
  try {
    const context = JSON.parse(output).hookSpecificOutput.additionalContext
    return typeof context === "string" ? context : ""
  } catch {
    return ""
  }
}

export const Mnema = async ({ client }) => {
  return {
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const event = { hook_event_name: "UserPromptSubmit", session_id: sessionID, prompt: textOf(parts) }
      const text = readContext(await runHook(event))
      // beside the prompt, not in the system prompt: memories are no instructions
      const id = `prt_${randomUUID().replaceAll("-", "")}`
      if (text) parts.push({ id, sessionID, messageID: message.id, type: "text", text, synthetic: true })
    },
    event: async ({ event }) => {
      const sessionID = event.properties?.sessionID
      if (event.type === "session.compacted") {
        await runHook({ hook_event_name: "SessionStart", session_id: sessionID, source: "compact" })
      }
      if (event.type !== "session.idle") return
      const { data } = await client.session.messages({ path: { id: sessionID } })
      const last = data?.findLast((message) => message.info.role === "assistant")
      const said = last ? textOf(last.parts) : ""
      await runHook({ hook_event_name: "Stop", session_id: sessionID, last_assistant_message: said })
    },
  }
}
