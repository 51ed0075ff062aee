// Installed by cortext (cortext uninstall takes it away). Tells cortext what happens in OpenCode's sessions.
// It imports nothing but what OpenCode brings along, never throws, and never makes OpenCode wait.
import { spawn } from "node:child_process"
import { closeSync, openSync, unlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const program = __PROGRAM__

let number = 0

// The event goes to the program's standard input through a file that has no name any more: a pipe might
// not be emptied before OpenCode exits, and waiting for it would hold OpenCode up.
function tell(event) {
  let input = -1
  try {
    const random = Math.random().toString(36).slice(2)
    const path = join(tmpdir(), `cortext-${process.pid}-${number++}-${random}.json`)
    writeFileSync(path, JSON.stringify(event), { mode: 0o600, flag: "wx" })
    try {
      input = openSync(path, "r")
    } finally {
      unlinkSync(path)
    }
    const child = spawn(program[0], program.slice(1), { stdio: [input, "ignore", "ignore"], detached: true })
    child.on("error", () => {})
    child.unref()
  } catch {
    // Capture by `cortext sync` heals what a lost event leaves out.
  } finally {
    if (input >= 0) closeSync(input)
  }
}

function words(parts) {
  const said = []
  for (const part of parts ?? []) if (part.type === "text" && !part.synthetic && !part.ignored) said.push(part.text)
  return said.join("\n\n")
}

export const Cortext = async ({ directory }) => {
  const sideAgents = new Set()
  const seen = new Set()
  const report = (name, session, more) => {
    if (!session || sideAgents.has(session)) return
    seen.add(session)
    tell({ hook_event_name: name, session_id: session, cwd: directory, ...more })
  }
  const safely = (work) => async (input, output) => {
    try {
      work(input, output)
    } catch {
      // A change in OpenCode's events must not break a turn.
    }
  }
  return {
    event: safely(({ event }) => {
      const session = event.properties?.sessionID ?? event.properties?.info?.id
      if (event.type === "session.created") {
        if (event.properties.info?.parentID) sideAgents.add(session)
        else report(event.type, session)
      } else if (event.type === "session.idle" || event.type === "session.compacted") {
        report(event.type, session)
      }
    }),
    "command.execute.before": safely((input, output) => {
      // OpenCode stores only what the command expands to; the mark keeps what was typed.
      const typed = { command: input.command, arguments: input.arguments ?? "" }
      const part = (output?.parts ?? []).find((part) => part.type === "text")
      if (part) part.metadata = { ...part.metadata, cortext: typed }
      report("command.execute.before", input.sessionID, { command_name: typed.command, command_args: typed.arguments })
    }),
    "chat.message": safely((input, output) => {
      const command = (output?.parts ?? []).some((part) => part.metadata?.cortext?.command)
      if (!command) report("chat.message", input.sessionID ?? output?.message?.sessionID, { prompt: words(output?.parts) })
    }),
    dispose: safely(() => {
      for (const session of seen) report("dispose", session)
      seen.clear()
    }),
  }
}
