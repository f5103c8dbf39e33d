// The official client of the Agent Client Protocol against "holdfast acp". Every
// message of the program is checked against the schema that the client ships.
import * as acp from '@agentclientprotocol/sdk'
import Ajv from 'ajv/dist/2020.js'
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Readable, Writable } from 'node:stream'
import { after, test } from 'node:test'
import { environment, lastText, program, startModel, startServer, until } from './harness.js'

const schema = JSON.parse(readFileSync(createRequire(import.meta.url).resolve('@agentclientprotocol/sdk/schema/v1/schema.json')))
const ajv = new Ajv({ strict: false, validateFormats: false })
ajv.addSchema(schema, 'acp')
const definitions = {
  'session/update': 'SessionNotification',
  'session/request_permission': 'RequestPermissionRequest',
  'elicitation/create': 'CreateElicitationRequest',
  '$/cancel_request': 'CancelRequestNotification',
}

const results = {
  initialize: 'InitializeResponse',
  'session/new': 'NewSessionResponse',
  'session/load': 'LoadSessionResponse',
  'session/resume': 'ResumeSessionResponse',
  'session/list': 'ListSessionsResponse',
  'session/prompt': 'PromptResponse',
}

const methods = acp.methods.agent
const home = mkdtempSync(join(tmpdir(), 'holdfast-acp-'))
let held = [] // answers that wait in the middle
const tool = (name, args) => [{ name, arguments: args }]
const model = await startModel(async (asked, say) => {
  const last = asked.messages.at(-1)
  const text = lastText(asked)
  if (last.role === 'tool') return void say(`The tool said: ${last.content}`)
  if (text.startsWith('write ')) return tool('file_write', { path: text.slice(6), content: 'hello\n' })
  if (text === 'plan') return tool('update_plan', { entries: [{ content: 'look', status: 'completed' }, { content: 'act', status: 'in_progress' }] })
  if (text === 'ask me') return tool('request_user_input', { question: 'Which colour?', options: ['red', 'blue'] })
  if (text.startsWith('slowly')) {
    say('first half, ')
    await new Promise((resolve) => held.push(resolve))
    return void say('second half')
  }
  say('heard: ')
  say(text)
})
const open = []
after(async () => {
  for (const resolve of held) resolve()
  for (const editor of open) await editor.kill()
  model.end()
  rmSync(home, { recursive: true, force: true })
})

let folders = 0
function newFolder() {
  const dir = join(home, `folder-${++folders}`)
  mkdirSync(dir)
  return dir
}

/** Starts the program as an editor does, and connects the official client. */
async function startEditor({ store = join(home, 'store.db'), flags = [], env = {}, forms = false, decide = () => 'allow_once' } = {}) {
  const args = env.HOLDFAST_SERVER ? ['acp', ...flags] : ['acp', '--store', `sqlite:${store}`, '--model', 'script/model', ...flags]
  const child = spawn(program, args, { cwd: home, env: environment(home, { ...model.env, ...env }), stdio: ['pipe', 'pipe', 'pipe'] })
  const editor = { updates: [], asked: [], wrong: [], said: '', taken: 0 }
  open.push(editor)
  child.stderr.on('data', (chunk) => (editor.said += chunk))
  child.stdin.on('error', () => {}) // of a program that was killed
  const lines = new PassThrough()
  let rest = ''
  child.stdout.on('data', (chunk) => {
    rest += chunk
    const whole = rest.split('\n')
    rest = whole.pop()
    for (const line of whole) check(JSON.parse(line))
    lines.write(chunk)
  })
  child.stdout.on('end', () => lines.end())
  function check(message) {
    if (!message.method) return
    const name = definitions[message.method]
    const valid = name && ajv.getSchema(`acp#/$defs/${name}`)
    if (!valid || !valid(message.params)) editor.wrong.push({ message, errors: valid?.errors })
    if (message.method === 'session/update') editor.updates.push(message.params.update)
  }
  const app = acp
    .client({ name: 'test' })
    .onRequest(acp.methods.client.session.requestPermission, async ({ params }) => {
      editor.asked.push(params)
      const optionId = await decide(params)
      return optionId ? { outcome: { outcome: 'selected', optionId } } : { outcome: { outcome: 'cancelled' } }
    })
    .onRequest(acp.methods.client.elicitation.create, ({ params }) => {
      editor.asked.push(params)
      return { action: 'accept', content: { answer: 'blue' } }
    })
    .onNotification(acp.methods.client.session.update, () => void editor.taken++)
  const connection = app.connect(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(lines)))
  editor.request = async (method, params) => {
    const result = await connection.agent.request(method, params)
    const valid = results[method] && ajv.getSchema(`acp#/$defs/${results[method]}`)
    if (valid && !valid(result)) editor.wrong.push({ method, result, errors: valid.errors })
    return result
  }
  editor.cancel = (sessionId) => connection.agent.notify(methods.session.cancel, { sessionId })
  editor.prompt = (sessionId, ...blocks) =>
    editor.request(methods.session.prompt, { sessionId, prompt: blocks.map((b) => (typeof b === 'string' ? { type: 'text', text: b } : b)) })
  editor.open = (method, cwd, sessionId) => editor.request(method, { cwd, mcpServers: [], sessionId })
  editor.new = async (cwd) => (await editor.open(methods.session.new, cwd)).sessionId
  editor.text = (kind = 'agent_message_chunk') => editor.updates.filter((u) => u.sessionUpdate === kind).map((u) => u.content.text).join('')
  editor.kinds = (kind) => editor.updates.filter((u) => u.sessionUpdate === kind)
  editor.kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await ended
  }
  editor.close = async () => {
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.stdin.end()
    const code = await ended
    assert.equal(code, 0, editor.said)
    assert.deepEqual(editor.wrong, [])
    assert.ok(editor.taken > 0 || editor.updates.length === 0, 'the client takes the updates in')
  }
  editor.hello = await editor.request(methods.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: forms ? { elicitation: { form: {} } } : {} })
  return editor
}

test('a prompt with files and images is answered as it is written', async () => {
  const cwd = newFolder()
  writeFileSync(join(cwd, 'AGENTS.md'), 'Always count to three.')
  const editor = await startEditor()
  assert.equal(editor.hello.protocolVersion, 1)
  assert.ok(editor.hello.agentCapabilities.loadSession)
  const { sessionId, modes } = await editor.open(methods.session.new, cwd)
  assert.equal(modes.currentModeId, 'default')
  const answer = await editor.prompt(
    sessionId,
    'look at this',
    { type: 'resource', resource: { uri: 'file:///a.txt', text: 'inside the file', mimeType: 'text/plain' } },
    { type: 'image', data: 'iVBORw0KGgo=', mimeType: 'image/png' },
    { type: 'resource_link', name: 'b.txt', uri: 'file:///b.txt' },
  )
  assert.equal(answer.stopReason, 'end_turn')
  assert.match(editor.text(), /^heard: look at this/)
  assert.deepEqual(editor.kinds('user_message_chunk'), [], 'the editor shows what was typed itself')
  assert.equal(editor.kinds('session_info_update')[0].title, 'look at this')
  assert.equal(editor.kinds('usage_update').at(-1).used, 20)
  const asked = model.asked.at(-1)
  assert.match(JSON.stringify(asked.messages[0]), /Always count to three/)
  assert.match(JSON.stringify(asked.messages.at(-1)), /inside the file.*iVBORw0KGgo=.*b\.txt/)

  await editor.prompt(sessionId, 'and again')
  const again = await startEditor()
  await again.open(methods.session.load, cwd, sessionId)
  assert.match(again.text('user_message_chunk'), /^look at this.*inside the file.*and again$/s)
  assert.equal(again.text(), editor.text())
  assert.equal(again.kinds('user_message_chunk').find((u) => u.content.type === 'image').content.data, 'iVBORw0KGgo=')
  await again.close()
  await editor.close()
})

test('calls are asked for with the scopes of rules, and work in the folder of the session', async () => {
  const cwd = newFolder()
  let choice = 'allow_once'
  const editor = await startEditor({ flags: ['--allow-write'], decide: () => choice })
  const sessionId = await editor.new(cwd)
  assert.equal((await editor.prompt(sessionId, 'write a.txt')).stopReason, 'end_turn')
  assert.equal(readFileSync(join(cwd, 'a.txt'), 'utf8'), 'hello\n')
  const [asked] = editor.asked
  assert.equal(asked.toolCall.kind, 'edit')
  assert.equal(asked.toolCall.content[0].path, join(cwd, 'a.txt'))
  assert.deepEqual(new Set(asked.options.map((o) => o.kind)), new Set(['allow_once', 'allow_always', 'reject_once', 'reject_always']))
  const call = editor.kinds('tool_call')[0]
  assert.equal(call.status, 'pending')
  assert.equal(call.toolCallId, asked.toolCall.toolCallId)
  const written = editor.kinds('tool_call_update').at(-1)
  assert.equal(written.status, 'completed')
  assert.deepEqual(written.locations, [{ path: join(cwd, 'a.txt') }])

  choice = asked.options.find((o) => o.kind === 'reject_once').optionId
  await editor.prompt(sessionId, 'write b.txt')
  assert.ok(!existsSync(join(cwd, 'b.txt')))
  assert.equal(editor.kinds('tool_call_update').at(-1).status, 'failed')

  choice = asked.options.find((o) => o.kind === 'allow_always').optionId
  await editor.prompt(sessionId, 'write c.txt')
  await editor.prompt(sessionId, 'write c.txt')
  assert.equal(editor.asked.length, 3, 'a rule was kept')

  await editor.request(methods.session.setMode, { sessionId, modeId: 'accept_edits' })
  await editor.prompt(sessionId, 'write d.txt')
  assert.equal(editor.asked.length, 3, 'the mode allows it')
  assert.ok(existsSync(join(cwd, 'd.txt')))
  const { modes } = await editor.open(methods.session.load, cwd, sessionId)
  assert.equal(modes.currentModeId, 'accept_edits')
  await assert.rejects(editor.request(methods.session.setMode, { sessionId, modeId: 'never' }), /never/)
  await editor.close()
})

test('a plan is shown, and again when the session is loaded', async () => {
  const cwd = newFolder()
  const editor = await startEditor()
  const sessionId = await editor.new(cwd)
  await editor.prompt(sessionId, 'plan')
  const entries = [{ content: 'look', priority: 'medium', status: 'completed' }, { content: 'act', priority: 'medium', status: 'in_progress' }]
  assert.deepEqual(editor.kinds('plan').at(-1).entries, entries)
  editor.updates.length = 0
  await editor.open(methods.session.load, cwd, sessionId)
  assert.deepEqual(editor.kinds('plan').at(-1).entries, entries)
  await editor.close()
})

test('a question is a form, or is answered by the next prompt', async () => {
  const cwd = newFolder()
  const editor = await startEditor({ forms: true })
  const sessionId = await editor.new(cwd)
  await editor.prompt(sessionId, 'ask me')
  assert.match(editor.asked[0].message, /Which colour/)
  assert.match(editor.text(), /The tool said: .*blue/)
  await editor.close()

  const plain = await startEditor()
  const other = await plain.new(cwd)
  assert.equal((await plain.prompt(other, 'ask me')).stopReason, 'end_turn')
  assert.match(plain.text(), /Which colour\?\n- red\n- blue/)
  await plain.prompt(other, 'red')
  assert.match(plain.text(), /The tool said: .*red/)
  await plain.close()
})

test('a turn is cancelled in the middle of an answer and while it asks', async () => {
  const cwd = newFolder()
  const editor = await startEditor({ flags: ['--allow-write'], decide: (asked) => (editor.cancel(asked.sessionId), undefined) })
  const sessionId = await editor.new(cwd)
  const answer = editor.prompt(sessionId, 'slowly')
  await until(() => editor.text().includes('first half'), 'the first half')
  await editor.cancel(sessionId)
  assert.equal((await answer).stopReason, 'cancelled')
  assert.equal((await editor.prompt(sessionId, 'write never.txt')).stopReason, 'cancelled')
  assert.ok(!existsSync(join(cwd, 'never.txt')))
  assert.equal((await editor.prompt(sessionId, 'hello')).stopReason, 'end_turn')
  await editor.close()
})

test('a program that is killed in the middle of an answer loses and repeats nothing', async () => {
  const cwd = newFolder()
  const before = await startEditor()
  const sessionId = await before.new(cwd)
  await before.prompt(sessionId, 'one')
  const lost = before.prompt(sessionId, 'slowly now').catch((err) => err)
  await until(() => before.text().includes('first half'), 'the first half')
  await before.kill()
  assert.ok((await lost) instanceof Error)
  for (const resolve of held.splice(0)) resolve()

  const editor = await startEditor()
  await editor.open(methods.session.load, cwd, sessionId)
  await until(() => held.length > 0, 'the question to the model')
  for (const resolve of held.splice(0)) resolve()
  await until(() => editor.text().includes('second half'), 'the rest of the answer')
  assert.equal(editor.text('user_message_chunk'), 'oneslowly now')
  assert.equal(editor.text(), 'heard: onefirst half, second half')
  assert.equal((await editor.prompt(sessionId, 'two')).stopReason, 'end_turn')
  const roles = model.asked.at(-1).messages.filter((m) => m.role !== 'system').map((m) => m.role)
  assert.deepEqual(roles, ['user', 'assistant', 'user', 'assistant', 'user'])
  await editor.close()
})

test('what was asked when the editor died is asked again', async () => {
  const cwd = newFolder()
  const before = await startEditor({ flags: ['--allow-write'], decide: () => new Promise(() => {}) })
  const sessionId = await before.new(cwd)
  before.prompt(sessionId, 'write later.txt').catch(() => {})
  await until(() => before.asked.length === 1, 'the question')
  await before.kill()
  const editor = await startEditor({ flags: ['--allow-write'] })
  await editor.open(methods.session.resume, cwd, sessionId)
  await until(() => editor.text().includes('The tool said'), 'the end of the turn')
  assert.equal(editor.asked.length, 1)
  assert.ok(existsSync(join(cwd, 'later.txt')))
  assert.equal(editor.text('user_message_chunk'), '', 'resume shows nothing of before')
  await editor.close()
})

test('sessions are listed by folder and page, closed and deleted', async () => {
  const store = join(home, 'listed.db')
  const [here, there] = [newFolder(), newFolder()]
  const editor = await startEditor({ store })
  const kept = await editor.new(here)
  const gone = await editor.new(here)
  await editor.new(there)
  await editor.prompt(kept, 'remember me')
  const list = async (params) => (await editor.request(methods.session.list, params)).sessions
  assert.deepEqual((await list({ cwd: here })).map((s) => s.sessionId), [kept, gone])
  assert.equal((await list({ cwd: here }))[0].title, 'remember me')
  assert.deepEqual(new Set((await list({})).map((s) => s.cwd)), new Set([here, there]))
  await editor.request(methods.session.close, { sessionId: kept })
  await assert.rejects(editor.prompt(kept, 'closed'), (err) => err.code === -32002)
  await editor.open(methods.session.resume, here, kept)
  assert.equal((await editor.prompt(kept, 'open')).stopReason, 'end_turn')
  await editor.request(methods.session.delete, { sessionId: gone })
  await editor.request(methods.session.delete, { sessionId: gone })
  assert.deepEqual((await list({ cwd: here })).map((s) => s.sessionId), [kept])
  await assert.rejects(editor.open(methods.session.load, here, gone), (err) => err.code === -32002)

  for (let i = 0; i < 51; i++) await editor.new(there)
  const first = await editor.request(methods.session.list, { cwd: there })
  const second = await editor.request(methods.session.list, { cwd: there, cursor: first.nextCursor })
  assert.equal(first.sessions.length + second.sessions.length, 52)
  assert.equal(second.nextCursor, undefined)
  await editor.close()
})

test('what is not offered is refused by its name', async () => {
  const editor = await startEditor()
  const cwd = newFolder()
  const open = (more) => editor.request(methods.session.new, { cwd, mcpServers: [], ...more })
  await assert.rejects(open({ additionalDirectories: [home] }), (err) => err.code === -32602 && /additionalDirectories/.test(err.message))
  await assert.rejects(open({ mcpServers: [{ type: 'sse', name: 'x', url: 'http://127.0.0.1:1/', headers: [] }] }), /mcpServers.*sse/)
  await assert.rejects(open({ cwd: 'relative' }), /cwd.*absolute/)
  await assert.rejects(editor.request('session/fork', {}), (err) => err.code === -32601)
  await editor.close()
})

const commandNames = ['model', 'cost', 'prune', 'retry']
const offered = (editor) => editor.kinds('available_commands_update').at(-1)?.availableCommands.map((c) => c.name)

test('commands are offered and run in place of a prompt, and a mode that is set elsewhere is shown', async () => {
  const cwd = newFolder()
  const editor = await startEditor()
  const sessionId = await editor.new(cwd)
  await until(() => offered(editor), 'the commands')
  assert.deepEqual(offered(editor), commandNames)
  const before = model.asked.length
  await editor.prompt(sessionId, '/cost')
  await editor.prompt(sessionId, '/model script/model')
  assert.match(editor.text(), /0 tokens in, 0 out; \$.*script\/model answers\./)
  assert.equal(model.asked.length, before, 'the model is not asked')
  await assert.rejects(editor.prompt(sessionId, '/model nobody/model'), /nobody/)
  await editor.prompt(sessionId, '/etc is a folder')
  assert.match(editor.text(), /heard: \/etc is a folder$/)

  const other = await startEditor()
  await other.open(methods.session.load, cwd, sessionId)
  await until(() => offered(other), 'the commands of a session that is loaded')
  await other.request(methods.session.setMode, { sessionId, modeId: 'plan' })
  await until(() => editor.kinds('current_mode_update').at(-1)?.currentModeId === 'plan', 'the mode')
  await other.close()
  await editor.close()
})

test('commands and modes of a session on a server', async () => {
  const server = await startServer({ model })
  try {
    const env = { HOLDFAST_SERVER: server.url, HOLDFAST_KEY: server.key }
    const editor = await startEditor({ env, flags: ['--model', 'script/model'], decide: () => 'reject_once' })
    const { sessionId, modes } = await editor.open(methods.session.new, newFolder())
    assert.equal(modes.currentModeId, 'default')
    await until(() => offered(editor), 'the commands')
    assert.deepEqual(offered(editor), commandNames)
    await editor.prompt(sessionId, '/cost')
    assert.match(editor.text(), /0 tokens in/)
    await editor.request(methods.session.setMode, { sessionId, modeId: 'accept_edits' })
    await until(() => editor.kinds('current_mode_update').at(-1)?.currentModeId === 'accept_edits', 'the mode')
    await editor.prompt(sessionId, 'write a.txt')
    assert.equal(readFileSync(join(server.folder, 'a.txt'), 'utf8'), 'hello\n', 'the mode allows it')
    assert.equal(editor.asked.length, 0)
    await editor.close()

    const less = await startEditor({ env: { ...env, HOLDFAST_KEY: server.createKey('read', 'write') }, flags: ['--model', 'script/model'] })
    const mine = await less.new(newFolder())
    await assert.rejects(less.request(methods.session.setMode, { sessionId: mine, modeId: 'bypass_permissions' }), /approve/)
    await less.request(methods.session.setMode, { sessionId: mine, modeId: 'plan' })
    await less.close()
  } finally {
    await server.end()
  }
})

test('the sessions of a server are an editor\'s too', async () => {
  const server = await startServer({ model })
  try {
    const cwd = newFolder()
    const env = { HOLDFAST_SERVER: server.url, HOLDFAST_KEY: server.key }
    const editor = await startEditor({ env, flags: ['--model', 'script/model'] })
    const sessionId = await editor.new(cwd)
    const answer = editor.prompt(sessionId, 'slowly there')
    await until(() => editor.text().includes('first half'), 'the first half')
    await server.kill()
    for (const resolve of held.splice(0)) resolve()
    await answer.catch(() => {})
    await server.start()
    const again = await startEditor({ env, flags: ['--model', 'script/model'] })
    await again.open(methods.session.load, cwd, sessionId)
    await until(() => {
      for (const resolve of held.splice(0)) resolve()
      return again.text().includes('second half')
    }, 'the rest of the answer')
    assert.equal(again.text('user_message_chunk'), 'slowly there')
    assert.equal(again.text(), 'first half, second half')
    await again.close()
    await editor.kill()
    const listed = execFileSync(program, ['sessions', 'list', '--json', '--store', server.store], { env: environment(home) }).toString()
    assert.match(listed, /slowly there/)
  } finally {
    await server.end()
  }
})
