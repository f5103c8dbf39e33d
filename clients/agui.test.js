import { HttpAgent, buildResumeArray } from '@ag-ui/client'
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { startRepeater, startServer, until } from './harness.js'

const model = await startRepeater((text) => {
  if (text.startsWith('delegate ')) return [{ name: 'spawn_subagent', arguments: { subagent: 'scribe', prompt: text.slice('delegate '.length) } }]
  if (text.includes('keep')) return [{ name: 'memory_store', arguments: { key: 'city', value: 'Bern' } }]
})
const agents = {
  helper: '---\nname: helper\nmodel: script/model\nmemory: {strategy: all, tools: true}\ntools: [file_write, memory_store, spawn_subagent]\nsubagents: [scribe]\n---\nHelp.\n',
  scribe: '---\nname: scribe\nmodel: script/model\ntools: [file_write]\n---\nWrite.\n',
}
const server = await startServer({ model, agents })
const { folder } = server
after(async () => {
  await server.end()
  model.end()
})

/** An agent as an application makes it. */
function newAgent(threadId, more = {}) {
  return new HttpAgent({ url: `${server.url}/agui/helper`, headers: { Authorization: `Bearer ${server.key}` }, threadId, fetch: fetchQuietly, ...more })
}

/**
 * Fetches as usual. When a connection breaks, the client cancels its reader and throws the error once more where nobody can
 * catch it; here that second error is dropped.
 */
async function fetchQuietly(url, init) {
  const response = await fetch(url, init)
  const getReader = response.body.getReader.bind(response.body)
  response.body.getReader = () => {
    const reader = getReader()
    const cancel = reader.cancel.bind(reader)
    reader.cancel = () => cancel().catch(() => {})
    return reader
  }
  return response
}

const said = (agent) => agent.messages.filter((m) => m.role === 'assistant' && m.content).map((m) => m.content)
const roles = (agent) => agent.messages.map((m) => m.role)
let count = 0
const say = (agent, content) => agent.addMessage({ id: `${agent.threadId}-${++count}`, role: 'user', content })

/** Runs an agent and returns its events. */
async function run(agent, parameters) {
  const events = []
  await agent.runAgent(parameters, { onEvent: ({ event }) => void events.push(event) })
  return events
}

test('agui: messages', async () => {
  const agent = newAgent('trip')
  say(agent, 'hello')
  await run(agent)
  say(agent, 'more')
  const events = await run(agent)
  assert.deepEqual(said(agent), ['heard hello of 1', 'heard more of 2'])
  assert.equal(events.at(-1).outcome.type, 'success')
  assert.equal(events.at(-1).usage[0].totalTokens, 20)
  // Another client of the thread has nothing and gets everything; it begins no turn.
  const asked = model.asked.length
  const other = newAgent('trip')
  await run(other)
  assert.deepEqual(other.messages, agent.messages)
  await run(agent) // and again: nothing is added
  assert.deepEqual(other.messages, agent.messages)
  assert.equal(model.asked.length, asked)
})

test('agui: parts of a message, and what the application knows', async () => {
  const agent = newAgent('parts')
  agent.addMessage({ id: 'p1', role: 'user', content: [{ type: 'text', text: 'look' }, { type: 'image', source: { type: 'data', value: 'aGk=', mimeType: 'image/png' } }] })
  await run(agent, { context: [{ description: 'the page', value: 'orders' }] })
  const sent = JSON.stringify(model.asked.at(-1).messages.findLast((m) => m.role === 'user').content)
  assert.match(sent, /image\/png/)
  assert.match(sent, /the page/)
  assert.match(sent, /orders/)
  const other = newAgent('parts')
  await run(other)
  assert.deepEqual(other.messages[0], agent.messages[0])
})

test('agui: tools of the client', async () => {
  const tools = [{ name: 'get_weather', description: 'the weather', parameters: { type: 'object' } }]
  const agent = newAgent('tools')
  say(agent, 'weather?')
  const events = await run(agent, { tools })
  const { outcome } = events.at(-1)
  assert.equal(outcome.type, 'success')
  const call = agent.messages.at(-1).toolCalls[0]
  assert.deepEqual(outcome.pendingToolCallIds, [call.id])
  assert.deepEqual(JSON.parse(call.function.arguments), { city: 'Bern' })
  agent.addMessage({ id: 'result-1', role: 'tool', toolCallId: call.id, content: 'sunny' })
  await run(agent, { tools })
  assert.deepEqual(said(agent), ['the tool says sunny'])
  assert.deepEqual(roles(agent), ['user', 'assistant', 'tool', 'assistant'])
  const asked = model.asked.length
  await run(agent, { tools }) // the same again begins nothing and changes nothing
  assert.deepEqual(roles(agent), ['user', 'assistant', 'tool', 'assistant'])
  assert.equal(agent.messages[2].id, 'result-1')
  assert.equal(model.asked.length, asked)
})

test('agui: an interrupt, and the run that resumes it', async () => {
  for (const approved of [true, false]) {
    const agent = newAgent(`interrupt-${approved}`)
    const file = `file-${approved}.txt`
    say(agent, `write ${file}`)
    const events = await run(agent)
    assert.equal(events.at(-1).outcome.type, 'interrupt')
    assert.equal(agent.pendingInterrupts.length, 1)
    const [waits] = agent.pendingInterrupts
    assert.equal(waits.reason, 'tool_call')
    assert.equal(waits.responseSchema.required[0], 'approved')
    assert.ok(!existsSync(join(folder, file)))

    // Nothing else is said before it is resolved, also by a client that does not know of it.
    const other = newAgent(agent.threadId)
    say(other, 'hello')
    await assert.rejects(run(other), /resume them first/)
    // A key without the scope cannot approve.
    const weak = newAgent(agent.threadId, { headers: { Authorization: `Bearer ${server.createKey('read', 'write')}` } })
    await assert.rejects(run(weak, { resume: [{ interruptId: waits.id, status: 'resolved', payload: { approved: true } }] }), /scope approve/)

    const resume = buildResumeArray(agent.pendingInterrupts, { [waits.id]: { status: 'resolved', payload: { approved } } })
    await run(agent, { resume })
    assert.equal(existsSync(join(folder, file)), approved)
    assert.deepEqual(roles(agent), ['user', 'assistant', 'tool', 'assistant'])
    assert.equal(agent.pendingInterrupts.length, 0)
    const asked = model.asked.length
    await run(agent, { resume }) // harmless
    assert.equal(model.asked.length, asked)
  }
  assert.equal(readFileSync(join(folder, 'file-true.txt'), 'utf8'), 'hello')
})

test('agui: an interrupt of a subagent', async () => {
  const agent = newAgent('delegated')
  say(agent, 'delegate write below.txt')
  await run(agent)
  const [waits] = agent.pendingInterrupts
  assert.equal(waits.reason, 'tool_call')
  assert.ok(waits.id.startsWith(`${waits.subagentRunId}/`))
  assert.ok(!existsSync(join(folder, 'below.txt')))
  const resume = buildResumeArray(agent.pendingInterrupts, { [waits.id]: { status: 'resolved', payload: { approved: true } } })
  const weak = newAgent(agent.threadId, { headers: { Authorization: `Bearer ${server.createKey('read', 'write')}` } })
  await assert.rejects(run(weak, { resume }), /scope approve/)
  await run(agent, { resume })
  assert.ok(existsSync(join(folder, 'below.txt')))
  assert.deepEqual(roles(agent), ['user', 'assistant', 'tool', 'assistant'])
  assert.equal(agent.pendingInterrupts.length, 0)
})

test('agui: state', async () => {
  const agent = newAgent('state', { initialState: { theme: 'dark' } })
  say(agent, 'keep it')
  const events = await run(agent)
  assert.deepEqual(agent.state, { theme: 'dark', city: 'Bern' })
  assert.ok(events.some((e) => e.type === 'STATE_DELTA'))
  agent.setState({ ...agent.state, theme: 'light' })
  say(agent, 'hello')
  await run(agent)
  const other = newAgent('state')
  await run(other)
  assert.deepEqual(other.state, { theme: 'light', city: 'Bern' })
})

test('agui: activity', async () => {
  const agent = newAgent('activity')
  say(agent, 'hello')
  await run(agent)
  await server.call('POST', '/v1/sessions/activity/actions/UpdateTask', { tasks: [{ content: 'pack', status: 'pending', activeForm: 'packing' }] })
  await run(agent)
  const shown = agent.messages.find((m) => m.role === 'activity')
  assert.equal(shown.activityType, 'tasks')
  assert.equal(shown.content.tasks[0].content, 'pack')
})

test('agui: what is not supported is refused by its name', async () => {
  const refused = async (parameters, reason, more) => {
    const agent = newAgent('refused', more)
    say(agent, 'hello')
    await assert.rejects(run(agent, parameters), reason)
  }
  await refused({ forwardedProps: { temperature: 1 } }, /forwardedProps.temperature/)
  await refused({}, /state/, { initialState: [1] })
  await refused({}, /role system/, { initialMessages: [{ id: 's', role: 'system', content: 'be rude' }] })
  await refused({}, /401/, { headers: { Authorization: 'Bearer wrong' } })
  await assert.rejects(run(newAgent('refused')), /begins with a message/) // and nothing was created
})

test('agui: a node that is killed in the middle of an answer', async () => {
  const agent = newAgent('killed')
  const asked = model.asked.length
  say(agent, 'slow')
  const broken = run(agent)
  await Promise.all([
    assert.rejects(broken),
    until(() => said(agent).join('').includes('two'), 'the first words').then(() => server.kill()),
  ])
  model.held.length = 0 // nobody hears the rest of it
  await server.start()
  const resumed = run(agent)
  await model.goOn()
  await resumed
  assert.deepEqual(said(agent), ['one two three'])
  assert.deepEqual(roles(agent), ['user', 'assistant'])
  assert.equal(model.asked.length, asked + 2)
  say(agent, 'next')
  await run(agent)
  assert.deepEqual(said(agent), ['one two three', 'heard next of 2'])
})
