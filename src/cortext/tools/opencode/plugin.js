// Written by cortext, removed by `cortext uninstall`: brings its commands, and reports what happens in a session.
// It has no dependencies, never throws, and waits, for a limited time, only for context that cortext adds to a prompt.
import { spawn } from "node:child_process"
import { closeSync, openSync, readFileSync, realpathSync, unlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, sep } from "node:path"
import { fileURLToPath } from "node:url"

const program = __PROGRAM__
// A prompt is the text here, or a file of the workspace, which you can edit.
const commands = __COMMANDS__
const workspace = fileURLToPath(new URL("../..", import.meta.url)) // this file is in .opencode/plugin
const timeout = 5000

let number = 0

// Start cortext with an event on its standard input. The input is an unlinked file, because a pipe might not be
// drained before OpenCode exits.
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

function report(event) {
  try {
    start(event, "ignore")
  } catch {
    // `cortext sync` finds in the database what was not reported.
  }
}

// The context that cortext adds to this event; empty if there is none, or if it does not answer in time.
async function ask(event) {
  try {
    const child = start(event, "pipe")
    let output = ""
    child.stdout.setEncoding("utf8")
    child.stdout.on("data", (text) => (output += text))
    child.stdout.on("error", () => {})
    await new Promise((done) => {
      const timer = setTimeout(() => (child.stdout.destroy(), done()), timeout)
      const end = () => (clearTimeout(timer), done())
      child.stdout.on("close", end)
      child.on("error", end)
    })
    return output.trim() ? (JSON.parse(output).context ?? "") : ""
  } catch {
    return ""
  }
}

// What a command expands to: what was typed, because OpenCode stores only the expansion. The prompt follows at its call.
function template(name) {
  return `<command-name>/${name}</command-name>\n<command-args>$ARGUMENTS</command-args>`
}

// The prompt of a command as it is now. A file outside the workspace is not for the model: a stranger's repository may
// bring a link to one.
function promptOf({ file, text }, typed) {
  try {
    const path = file && realpathSync(join(workspace, file))
    if (path && !path.startsWith(join(realpathSync(workspace), sep))) throw new Error("it is outside the workspace")
    return (path ? readFileSync(path, "utf8").trim() : text).replaceAll("{arguments}", () => typed)
  } catch (error) {
    return `The prompt of this command, the file ${file}, cannot be read (${error.code ?? error.message}): say so.`
  }
}

function promptText(parts) {
  const typed = parts.filter((part) => part.type === "text" && !part.synthetic && !part.ignored)
  return typed.map((part) => part.text).join("\n\n")
}

// The next id in the order of ids.
function nextId(id) {
  const [kind, rest] = [id.slice(0, 4), id.slice(4)]
  return kind + (parseInt(rest.slice(0, 12), 16) + 1).toString(16).padStart(12, "0") + rest.slice(12)
}

export const Cortext = async ({ directory }) => {
  const sideAgents = new Set()
  const seen = new Set()
  const describe = (name, session, more) => {
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
  const ours = new Set()
  return {
    config: safely((config) => {
      config.command ??= {}
      for (const [name, { description }] of Object.entries(commands)) {
        config.command[name] ??= { description, template: template(name) } // a file of the user's goes first
        if (config.command[name].template === template(name)) ours.add(name)
      }
    }),
    event: safely(({ event }) => {
      const session = event.properties?.sessionID ?? event.properties?.info?.id
      if (event.type === "session.created" && event.properties.info?.parentID) sideAgents.add(session)
      if (!["session.created", "session.idle", "session.compacted"].includes(event.type)) return
      const message = describe(event.type, session)
      if (message) report(message)
    }),
    "command.execute.before": safely(async (input, output) => {
      // OpenCode stores only the expansion of a command; the metadata keeps what was typed.
      const typed = { command: input.command, arguments: input.arguments ?? "" }
      const part = output.parts.find((part) => part.type === "text")
      if (part) part.metadata = { ...part.metadata, cortext: typed }
      if (part && ours.has(typed.command)) part.text += `\n\n${promptOf(commands[typed.command], typed.arguments)}`
      const more = { command_name: typed.command, command_args: typed.arguments }
      const event = describe("command.execute.before", input.sessionID, more)
      const context = event ? await ask(event) : ""
      if (context) output.parts.push({ type: "text", text: context, synthetic: true })
    }),
    "chat.message": safely(async (input, output) => {
      if (output.parts.some((part) => part.metadata?.cortext?.command)) return
      const prompt = promptText(output.parts)
      const event = describe("chat.message", input.sessionID ?? output.message.sessionID, { prompt })
      const context = event ? await ask(event) : ""
      const last = output.parts.at(-1)
      if (!context || !last) return
      const { sessionID, messageID } = last
      output.parts.push({ id: nextId(last.id), sessionID, messageID, type: "text", text: context, synthetic: true })
    }),
    dispose: safely(() => {
      for (const session of seen) report(describe("dispose", session))
      seen.clear()
    }),
  }
}
