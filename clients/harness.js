// Runs the real program on a store of its own, with a model that answers by a script.
import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** How long anything may take on a slow machine. */
export const patience = 60_000

/** The program under test, which run.js has built. */
export const program = process.env.HOLDFAST_BIN

/** The environment of a program that finds nothing of the machine's configuration. */
export function environment(dir, more = {}) {
  return { PATH: process.env.PATH, HOME: dir, HOLDFAST_OFFLINE_PACE: '0s', HOLDFAST_NO_TITLES: '1', ...more }
}

/**
 * Starts a server. Give it a model to have script/model answered by it, and the
 * texts of definition files by the names of agents. Tools may write in its
 * folder. kill() ends the process in the middle of whatever it does, start()
 * starts it again on the same port and store.
 */
export async function startServer({ model, agents = {}, env = {} } = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-clients-'))
  const folder = join(dir, 'work')
  mkdirSync(folder)
  const store = `sqlite:${join(dir, 'store.db')}`
  const definitions = join(dir, '.config', 'holdfast', 'agents')
  mkdirSync(definitions, { recursive: true })
  for (const [name, text] of Object.entries(agents)) writeFileSync(join(definitions, `${name}.md`), text)
  const all = environment(dir, { ...model?.env, ...env })
  let child
  const server = {
    dir,
    folder,
    store,
    url: '',
    key: '',
    async start() {
      const listen = server.url ? server.url.slice('http://'.length) : '127.0.0.1:0'
      child = spawn(program, ['serve', '--listen', listen, '--store', store, '--quiet', '--workspace', folder, '--allow-write'], { env: all, cwd: dir, stdio: ['ignore', 'ignore', 'pipe'] })
      let said = ''
      server.url = await new Promise((resolve, reject) => {
        const late = setTimeout(() => reject(new Error(`the server did not start: ${said}`)), patience)
        child.once('exit', (code) => reject(new Error(`the server ended with ${code}: ${said}`)))
        child.stderr.on('data', (chunk) => {
          said += chunk
          const listening = /listening on (http:\/\/127\.0\.0\.1:\d+)/.exec(said)
          if (!listening) return
          clearTimeout(late)
          resolve(listening[1])
        })
      })
    },
    async kill() {
      if (!child || child.exitCode !== null || child.signalCode !== null) return
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGKILL')
      await ended
    },
    async end() {
      await server.kill()
      rmSync(dir, { recursive: true, force: true })
    },
    /** Sends a request to the native API. */
    async call(method, path, body) {
      const response = await fetch(server.url + path, {
        method,
        headers: { Authorization: `Bearer ${server.key}`, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
        body: body === undefined ? undefined : JSON.stringify(body),
      })
      const text = await response.text()
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
      return text === '' ? undefined : JSON.parse(text)
    },
    /** Creates a key with scopes. */
    createKey(...scopes) {
      const args = ['keys', 'create', '--store', store, ...scopes.flatMap((s) => ['--scope', s])]
      return execFileSync(program, args, { env: all, stdio: ['ignore', 'pipe', 'ignore'] }).toString().trim()
    },
  }
  await server.start()
  server.key = server.createKey('read', 'write', 'approve')
  return server
}

/**
 * Answers requests in the way of a provider. answer(asked, say, calls) may say
 * several pieces and wait between them; it returns the tool calls, if any. Its
 * third argument counts the requests so far.
 */
export async function startModel(answer) {
  let calls = 0
  const model = { asked: [], env: {}, end() {} }
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => (body += chunk))
    request.on('end', async () => {
      const asked = JSON.parse(body || '{"messages":[]}')
      model.asked.push(asked)
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      const send = (choice, more = {}) =>
        response.write(`data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', model: 'model', choices: [{ index: 0, finish_reason: null, ...choice }], ...more })}\n\n`)
      const say = (content) => void send({ delta: { role: 'assistant', content } })
      const wanted = await answer(asked, say, model.asked.length)
      if (response.destroyed) return
      const tool_calls = wanted?.map((c, index) => ({ index, id: `call_${++calls}`, type: 'function', function: { name: c.name, arguments: JSON.stringify(c.arguments) } }))
      send({ delta: { role: 'assistant', tool_calls }, finish_reason: tool_calls ? 'tool_calls' : 'stop' }, { usage: { prompt_tokens: 12, completion_tokens: 8, total_tokens: 20 } })
      response.end('data: [DONE]\n\n')
    })
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  model.env = { HOLDFAST_PROVIDER_SCRIPT_URL: `http://127.0.0.1:${server.address().port}/v1` }
  model.end = () => {
    server.closeAllConnections()
    server.close()
  }
  return model
}

/**
 * Starts a model that repeats what it hears. "weather" calls a function of the client, "write FILE" a tool of the server, and more(text)
 * may return other calls. "slow" waits in the middle of its answer until goOn(); held are those that wait.
 */
export async function startRepeater(more = () => undefined) {
  const held = []
  const model = await startModel(async (asked, say) => {
    const text = lastText(asked)
    const last = asked.messages.at(-1)
    if (last.role === 'tool') return say(`the tool says ${last.content}`)
    const calls = more(text)
    if (calls) return calls
    if (text.includes('weather') && asked.tools) return [{ name: 'get_weather', arguments: { city: 'Bern' } }]
    if (text.startsWith('write ')) return [{ name: 'file_write', arguments: { path: text.split(' ')[1], content: 'hello' } }]
    if (text.includes('slow')) {
      say('one two ')
      await new Promise((resolve) => held.push(resolve))
      return say('three')
    }
    say(`heard ${text} `)
    say(`of ${asked.messages.filter((m) => m.role === 'user').length}`)
  })
  return Object.assign(model, {
    held,
    async goOn() {
      await until(() => held.length > 0, 'an answer that waits')
      held.shift()()
    },
  })
}

/** The text of the last message of a person. */
export function lastText(asked) {
  const last = asked.messages.findLast((m) => m.role === 'user')
  return typeof last?.content === 'string' ? last.content : (last?.content ?? []).map((p) => p.text ?? '').join('')
}

/** Waits until check returns something true. */
export async function until(check, what) {
  const end = Date.now() + patience
  for (;;) {
    const found = await check()
    if (found) return found
    if (Date.now() > end) throw new Error(`${what} did not happen`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
