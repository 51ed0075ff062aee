// Written by cortext, and taken away by `cortext uninstall`: tells cortext what happens in a session.
// It needs nothing but what OpenCode brings along, never throws, and waits only where cortext has something to say
// to the model, and not for long.
import { spawn } from "node:child_process"
import { closeSync, openSync, unlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const program = __PROGRAM__
const patience = 5000

let number = 0

// Start cortext with an event on its standard input. The event lies in a file that has lost its name: a pipe might
// not be emptied before OpenCode exits.
function start(event, output) {
  const random = Math.random().toString(36).slice(2)
  const path = join(tmpdir(), `cortext-${process.pid}-${number++}-${random}.json`)
  let input = -1
  try {
    writeFileSync(path, JSON.stringify(event), { mode: 0o600, flag: "wx" })
    try {
      input = openSync(path, "r")
    } finally {
      unlinkSync(path)
    }
    const child = spawn(program[0], program.slice(1), { stdio: [input, output, "ignore"], detached: true })
    child.on("error", () => {})
    child.unref()
    return child
  } finally {
    if (input >= 0) closeSync(input)
  }
}

function tell(event) {
  try {
    start(event, "ignore")
  } catch {
    // What is lost here, `cortext sync` finds in the database.
  }
}

// What cortext has to say to the model about this event; empty when it says nothing in time.
async function ask(event) {
  try {
    const child = start(event, "pipe")
    let said = ""
    child.stdout.setEncoding("utf8")
    child.stdout.on("data", (text) => (said += text))
    child.stdout.on("error", () => {})
    await new Promise((done) => {
      const late = setTimeout(() => (child.stdout.destroy(), done()), patience)
      const end = () => (clearTimeout(late), done())
      child.stdout.on("close", end)
      child.on("error", end)
    })
    return said.trim() ? (JSON.parse(said).context ?? "") : ""
  } catch {
    return ""
  }
}

function words(parts) {
  const said = parts.filter((part) => part.type === "text" && !part.synthetic && !part.ignored)
  return said.map((part) => part.text).join("\n\n")
}

// An id that comes right after another one in the order of ids.
function following(id) {
  const [kind, rest] = [id.slice(0, 4), id.slice(4)]
  return kind + (parseInt(rest.slice(0, 12), 16) + 1).toString(16).padStart(12, "0") + rest.slice(12)
}

export const Cortext = async ({ directory }) => {
  const sideAgents = new Set()
  const seen = new Set()
  const about = (name, session, more) => {
    if (!session || sideAgents.has(session)) return undefined
    seen.add(session)
    return { hook_event_name: name, session_id: session, cwd: directory, ...more }
  }
  const safely = (work) => async (input, output) => {
    try {
      await work(input, output)
    } catch {
      // A change in OpenCode's events must not break a turn.
    }
  }
  return {
    event: safely(({ event }) => {
      const session = event.properties?.sessionID ?? event.properties?.info?.id
      if (event.type === "session.created" && event.properties.info?.parentID) sideAgents.add(session)
      if (!["session.created", "session.idle", "session.compacted"].includes(event.type)) return
      const report = about(event.type, session)
      if (report) tell(report)
    }),
    "command.execute.before": safely(async (input, output) => {
      // OpenCode stores only what the command becomes; the mark keeps what was typed.
      const typed = { command: input.command, arguments: input.arguments ?? "" }
      const part = output.parts.find((part) => part.type === "text")
      if (part) part.metadata = { ...part.metadata, cortext: typed }
      const more = { command_name: typed.command, command_args: typed.arguments }
      const event = about("command.execute.before", input.sessionID, more)
      const context = event ? await ask(event) : ""
      if (context) output.parts.push({ type: "text", text: context, synthetic: true })
    }),
    "chat.message": safely(async (input, output) => {
      if (output.parts.some((part) => part.metadata?.cortext?.command)) return
      const event = about("chat.message", input.sessionID ?? output.message.sessionID, { prompt: words(output.parts) })
      const context = event ? await ask(event) : ""
      const last = output.parts.at(-1)
      if (!context || !last) return
      const { sessionID, messageID } = last
      output.parts.push({ id: following(last.id), sessionID, messageID, type: "text", text: context, synthetic: true })
    }),
    dispose: safely(() => {
      for (const session of seen) tell(about("dispose", session))
      seen.clear()
    }),
  }
}
