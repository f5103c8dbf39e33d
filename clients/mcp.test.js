// The official MCP client against /mcp of a server and "holdfast mcp".
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { environment, lastText, patience, program, startModel, startServer, until } from './harness.js'

const held = []
const model = await startModel(async (asked, say) => {
  const text = lastText(asked)
  if (asked.messages.at(-1).role === 'tool') return void say('done')
  if (text === 'ask me') return [{ name: 'request_user_input', arguments: { question: 'Which colour?' } }]
  if (text === 'write') return [{ name: 'file_write', arguments: { path: 'made.txt', content: 'x' } }]
  if (text.startsWith('slowly')) {
    say('first half, ')
    await new Promise((resolve) => held.push(resolve))
    return void say('second half')
  }
  say(`heard ${text}`)
})
const server = await startServer({ model, env: { HOLDFAST_MODEL: 'script/model' } })
const home = server.folder
after(async () => {
  for (const resolve of held) resolve()
  await server.end()
  model.end()
})

async function connect(transport) {
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(transport)
  const call = async (name, args) => {
    const result = await client.callTool({ name, arguments: args }, undefined, { timeout: patience })
    if (result.isError) throw new Error(result.content[0].text)
    return result.structuredContent
  }
  return { client, call, close: () => client.close() }
}

const http = (key = server.key) =>
  connect(new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`), { requestInit: { headers: { Authorization: `Bearer ${key}` } } }))

/** What every way to reach the tools offers. */
async function talk({ client, call }) {
  const sent = await call('session_send', { text: 'hello', name: 'mine', key: 'k1' })
  assert.deepEqual([sent.status, sent.reply], ['completed', 'heard hello'])
  assert.deepEqual(await call('session_send', { text: 'hello', name: 'mine', key: 'k1' }), sent, 'a repeated message is sent once')
  const next = await call('session_send', { session: sent.session, text: 'more' })
  assert.equal(next.reply, 'heard more')
  assert.equal((await call('session_read', { session: 'mine' })).version, next.version)
  assert.deepEqual((await call('session_search', { words: 'mine' })).sessions.map((s) => s.session), [sent.session])

  const asked = await call('session_send', { session: 'mine', text: 'ask me' })
  assert.equal(asked.status, 'waiting')
  assert.match(asked.pending[0].prompt, /Which colour/)
  const answered = await call('pending_respond', { session: 'mine', pending: asked.pending[0].id, action: 'answer', text: 'blue' })
  assert.deepEqual([answered.status, answered.reply], ['completed', 'done'])

  const { contents } = await client.readResource({ uri: `holdfast://sessions/${sent.session}` })
  const messages = JSON.parse(contents[0].text).messages.map((m) => m.role)
  assert.deepEqual(messages, ['user', 'assistant', 'user', 'assistant', 'user', 'assistant', 'tool', 'assistant'])
  await assert.rejects(client.readResource({ uri: 'holdfast://sessions/none' }), /not found/i)
  await assert.rejects(call('session_send', { session: 'none', text: 'x' }), /not found/)
  await assert.rejects(call('session_send', { text: 'x', temperature: 1 }), /temperature/)
}

test('sessions of a server are tools and resources', async () => {
  const mcp = await http()
  await talk(mcp)
  const { resourceTemplates } = await mcp.client.listResourceTemplates()
  assert.equal(resourceTemplates[0].uriTemplate, 'holdfast://sessions/{id}')
  await mcp.close()
})

test('"holdfast mcp" offers the sessions of a store, or of a server', async () => {
  const start = (args, env) => connect(new StdioClientTransport({ command: program, args: ['mcp', ...args], cwd: home, env: environment(home, env), stderr: 'ignore' }))
  const local = await start(['--store', `sqlite:${join(home, 'own.db')}`], { ...model.env, HOLDFAST_MODEL: 'script/model' })
  await talk(local)
  const names = (await local.client.listTools()).tools.map((t) => t.name)
  assert.deepEqual(names.sort(), ['pending_respond', 'session_read', 'session_search', 'session_send'])
  await local.close()

  const remote = await start([], { HOLDFAST_SERVER: server.url, HOLDFAST_KEY: server.key })
  assert.equal((await remote.call('session_send', { text: 'there' })).reply, 'heard there')
  assert.ok((await remote.client.listTools()).tools.some((t) => t.name === 'task_start'))
  await remote.close()
})

test('an approval is responded to', async () => {
  const mcp = await http()
  const asked = await mcp.call('session_send', { text: 'write' })
  assert.equal(asked.pending[0].kind, 'approval')
  assert.ok(!existsSync(join(home, 'made.txt')))
  assert.equal((await mcp.call('pending_respond', { session: asked.session, pending: asked.pending[0].id, action: 'approve' })).reply, 'done')
  assert.ok(existsSync(join(home, 'made.txt')))
  rmSync(join(home, 'made.txt'))
  await mcp.close()
})

/** Follows a job until it is as wanted. */
const follow = (mcp, tool, args, status) =>
  until(async () => {
    const now = await mcp.call(tool, args)
    return now.status === status && now
  }, `${tool} ${status}`)

test('a task is started, followed and approved', async () => {
  const mcp = await http()
  const started = await mcp.call('task_start', { prompt: 'write', title: 'a file', key: 't1' })
  assert.equal((await mcp.call('task_start', { prompt: 'write', title: 'a file', key: 't1' })).session, started.session, 'a repeated task is started once')
  const blocked = await follow(mcp, 'task_status', { task: started.session }, 'blocked')
  assert.equal(blocked.title, 'a file')
  assert.deepEqual(blocked.pending.map((p) => [p.kind, p.tool]), [['approval', 'file_write']])
  assert.ok(!existsSync(join(home, 'made.txt')))
  await mcp.call('pending_respond', { session: started.session, pending: blocked.pending[0].id, action: 'approve' })
  const ended = await follow(mcp, 'task_status', { task: started.session }, 'completed')
  assert.equal(ended.response, 'done')
  assert.ok(existsSync(join(home, 'made.txt')))
  rmSync(join(home, 'made.txt'))
  assert.ok((await mcp.call('session_search', { kind: 'task' })).sessions.some((s) => s.session === started.session))
  await mcp.close()
})

test('a workflow is run, asks and goes on', async () => {
  const mcp = await http()
  const spec = `version: 1
name: hello
runtime: {provider: offline, model_id: echo}
agents: {greeter: {prompt: You greet., tools: []}}
pattern:
  type: chain
  config:
    steps:
      - {type: hitl, prompt: "Whom?"}
      - {agent: greeter, input: "Hello, {{ who }} and {{ steps[0].response }}!"}
inputs: {optional: {who: {type: string, default: world}}}
`
  const run = await mcp.call('workflow_run', { spec, variables: { who: 'moon' }, key: 'w1' })
  assert.equal((await mcp.call('workflow_run', { spec, variables: { who: 'moon' }, key: 'w1' })).session, run.session, 'a repeated run is started once')
  const paused = await follow(mcp, 'workflow_status', { run: run.session }, 'paused')
  assert.match(paused.pending[0].prompt, /Whom/)
  await mcp.call('pending_respond', { session: run.session, pending: paused.pending[0].id, action: 'answer', text: 'stars' })
  const ended = await follow(mcp, 'workflow_status', { run: run.session }, 'completed')
  assert.match(ended.response, /Hello, moon and stars!/)
  await mcp.close()
})

function otherTenantKey() {
  const args = ['keys', 'create', '--store', server.store, '--tenant', 'other', '--scope', 'read']
  return execFileSync(program, args, { env: environment(home), stdio: ['ignore', 'pipe', 'ignore'] }).toString().trim()
}

test('keys, scopes and tenants are those of the API', async () => {
  await assert.rejects(http('hf_wrong'), /401|key/i)
  const mcp = await http(server.createKey('read'))
  await assert.rejects(mcp.call('session_send', { text: 'hello' }), /scope write/)
  assert.ok((await mcp.call('session_search', {})).sessions.length > 0)
  await mcp.close()
  const other = await http(otherTenantKey())
  assert.deepEqual((await other.call('session_search', {})).sessions, [])
  await other.close()
})

test('a server that is killed in the middle of an answer loses and repeats nothing', async () => {
  const mcp = await http()
  const { session } = await mcp.call('session_send', { text: 'one' })
  const lost = mcp.call('session_send', { session, text: 'slowly', key: 'slow' }).catch((err) => err)
  await until(() => held.length > 0, 'the first half')
  await server.kill()
  assert.ok((await lost) instanceof Error)
  for (const resolve of held.splice(0)) resolve()
  await server.start()
  const again = await http()
  const open = setInterval(() => held.splice(0).forEach((resolve) => resolve()), 50)
  const sent = await until(() => again.call('session_send', { session, text: 'slowly', key: 'slow' }).catch(() => undefined), 'the answer').finally(() => clearInterval(open))
  assert.equal(sent.reply, 'first half, second half')
  const { contents } = await again.client.readResource({ uri: `holdfast://sessions/${session}` })
  assert.deepEqual(JSON.parse(contents[0].text).messages.map((m) => m.role), ['user', 'assistant', 'user', 'assistant'])
  await again.close()
})
