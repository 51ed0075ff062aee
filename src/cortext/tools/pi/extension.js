// Written by cortext, removed by `cortext uninstall`: reports to cortext what happens in a session.
// It has no dependencies, never throws, and waits for cortext only for a limited time.
import { spawn } from "node:child_process"

const program = __PROGRAM__
const timeout = 10000

// Report an event; return the context that cortext adds to it, which is empty for most events.
async function report(name, ctx, more) {
  try {
    const session = { session_id: ctx.sessionManager.getSessionId(), transcript_path: ctx.sessionManager.getSessionFile() }
    const child = spawn(program[0], program.slice(1), { stdio: ["pipe", "pipe", "ignore"], timeout })
    let output = ""
    child.stdout.setEncoding("utf8")
    child.stdout.on("data", (text) => (output += text))
    child.stdin.on("error", () => {})
    const end = new Promise((done) => child.on("error", done).on("close", done))
    child.stdin.end(JSON.stringify({ hook_event_name: name, cwd: ctx.cwd, ...session, ...more }))
    await end
    return output.trim() ? (JSON.parse(output).context ?? "") : ""
  } catch {
    return "" // `cortext sync` finds in the session what was not reported
  }
}

export default function (pi) {
  for (const name of ["session_start", "agent_end", "session_compact", "session_shutdown"]) {
    pi.on(name, async (_, ctx) => void (await report(name, ctx)))
  }
  pi.on("before_agent_start", async (event, ctx) => {
    const content = await report("before_agent_start", ctx, { prompt: event.prompt })
    return content ? { message: { customType: "cortext", content, display: false } } : undefined
  })
}
