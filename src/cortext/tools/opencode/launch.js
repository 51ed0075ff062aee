// Loaded for a single start by `cortext resume`: sends the first prompt to the session that is opened.
// (OpenCode ignores its own --prompt together with --session.)
const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds))

// The prompt is JSON, split into chunks that each fit into an environment variable.
function takePrompt(pieces) {
  let text = ""
  for (let number = 0; number < pieces; number++) {
    const name = `CORTEXT_PROMPT_${number}`
    text += process.env[name] ?? ""
    delete process.env[name]
  }
  return JSON.parse(text)
}

// The wanted model if it is usable; undefined if the session's own is; otherwise the one that OpenCode would choose.
async function chooseModel(client, session, wanted) {
  const known = (await client.config.providers()).data ?? { providers: [], default: {} }
  const usable = (model) => known.providers.some((item) => item.id === model?.providerID && item.models[model.modelID])
  if (usable(wanted)) return wanted
  const messages = (await client.session.messages({ path: { id: session } })).data ?? []
  const last = messages.findLast((item) => item.info.role === "user")?.info.model
  if (usable(last)) return undefined
  const [providerID, ...name] = ((await client.config.get()).data?.model ?? "").split("/")
  const chosen = { providerID, modelID: name.join("/") }
  if (usable(chosen)) return chosen
  const first = known.providers.find((item) => known.default[item.id])
  return first && { providerID: first.id, modelID: known.default[first.id] }
}

async function send(client, { session, pieces, model }) {
  const prompt = takePrompt(pieces)
  const chosen = await chooseModel(client, session, model)
  const [, name, argument] = /^\/(\S+)\s*([^]*)$/.exec(prompt) ?? []
  const commands = name ? ((await client.command.list()).data ?? []) : []
  if (commands.some((command) => command.name === name)) {
    const named = chosen ? { model: `${chosen.providerID}/${chosen.modelID}` } : {}
    return client.session.command({ path: { id: session }, body: { command: name, arguments: argument, ...named } })
  }
  const body = { parts: [{ type: "text", text: prompt }], ...(chosen ? { model: chosen } : {}) }
  return client.session.promptAsync({ path: { id: session }, body })
}

export const CortextLaunch = async ({ client }, options) => {
  // OpenCode reloads its plugins when its config changes; the prompt must be sent only once.
  if (!options?.session || globalThis.cortextPromptSent) return {}
  globalThis.cortextPromptSent = true
  const work = async () => {
    await wait(0) // OpenCode does not answer requests of plugins until all of them are loaded
    try {
      const answer = await send(client, options)
      if (answer?.error) throw new Error(JSON.stringify(answer.error))
    } catch (error) {
      const message = `cortext could not send the first prompt: ${error?.message ?? error}`
      await client.tui.showToast({ body: { message, variant: "error" } }).catch(() => {})
    }
  }
  work()
  return {}
}
