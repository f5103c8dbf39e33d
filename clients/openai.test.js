import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import OpenAI from 'openai'
import { startRepeater, startServer, until } from './harness.js'

const model = await startRepeater()
const server = await startServer({ model })
const client = new OpenAI({ baseURL: `${server.url}/openai/v1`, apiKey: server.key, maxRetries: 0 })
after(async () => {
  await server.end()
  model.end()
})

const tools = [{ type: 'function', name: 'get_weather', description: 'the weather', strict: true, parameters: { type: 'object', properties: { city: { type: 'string' } } } }]

test('openai: a response, its session and its stream', async () => {
  const first = await client.responses.create({ model: 'script/model', instructions: 'be kind', input: 'hello', metadata: { trip: '1' } })
  assert.equal(first.status, 'completed')
  assert.equal(first.output_text, 'heard hello of 1')
  assert.equal(first.usage.total_tokens, 20)
  const second = await client.responses.create({ model: 'script/model', input: 'more', previous_response_id: first.id })
  assert.equal(second.output_text, 'heard more of 2')
  // An older response is continued in a fork.
  const third = await client.responses.create({ model: 'script/model', input: 'else', previous_response_id: first.id })
  assert.equal(third.output_text, 'heard else of 2')
  assert.notEqual(third.id.split('_')[1], second.id.split('_')[1])
  const again = await client.responses.retrieve(first.id)
  assert.deepEqual(again.output, first.output)
  assert.deepEqual(again.metadata, { trip: '1' })

  const stream = client.responses.stream({ model: 'script/model', input: 'hello' })
  const types = []
  let text = ''
  for await (const event of stream) {
    types.push(event.type)
    if (event.type === 'response.output_text.delta') text += event.delta
  }
  const final = await stream.finalResponse()
  assert.equal(text, 'heard hello of 1')
  assert.equal(final.output_text, text)
  assert.equal(types[0], 'response.created')
  assert.equal(types.at(-1), 'response.completed')

  const items = await client.responses.inputItems.list(second.id)
  assert.equal(items.data[0].content[0].text, 'more')
  await client.responses.delete(second.id)
  await assert.rejects(client.responses.retrieve(second.id), OpenAI.NotFoundError)
})

test('openai: the tokens of an input, and a conversation that is compacted', async () => {
  const tokens = async (body) => (await client.responses.inputTokens.count({ model: 'script/model', ...body })).input_tokens
  const asked = model.asked.length
  const short = await tokens({ input: 'hello' })
  assert.ok(short > 0 && short < (await tokens({ input: 'hello '.repeat(100) })))
  assert.ok(short < (await tokens({ input: 'hello', instructions: 'be kind to everybody' })))
  assert.ok(short < (await tokens({ input: 'hello', tools })))
  assert.equal(model.asked.length, asked)
  const first = await client.responses.create({ model: 'script/model', input: 'a long story' })
  const second = await client.responses.create({ model: 'script/model', input: 'more of it', previous_response_id: first.id })
  assert.ok((await tokens({ input: 'hello', previous_response_id: first.id })) < (await tokens({ input: 'hello', previous_response_id: second.id })))
  await assert.rejects(tokens({ input: 'hello', personality: 'friendly' }), (e) => e.param === 'personality')

  const compacted = await client.responses.compact({ model: 'script/model', previous_response_id: second.id })
  assert.equal(compacted.object, 'response.compaction')
  assert.equal(compacted.usage.total_tokens, 20)
  assert.deepEqual(compacted.output.map((i) => i.content?.[0].text ?? i.type), ['a long story', 'more of it', 'compaction'])
  assert.match(JSON.stringify(model.asked.at(-1).messages), /a long story.*heard a long story.*more of it.*heard more of it.*Summarise/)
  // What goes on with it has the summary and not what was said. It goes on after a restart, too.
  await server.kill()
  await server.start()
  const next = await client.responses.create({ model: 'script/model', input: [...compacted.output, { role: 'user', content: 'and then?' }] })
  assert.equal(next.output_text, 'heard and then? of 3')
  const sent = model.asked.at(-1).messages
  assert.deepEqual(sent.map((m) => m.role), ['user', 'user', 'assistant', 'user'])
  assert.match(JSON.stringify(sent[2]), /heard Summarise the conversation/)
  const own = await client.responses.compact({ model: 'script/model', input: [{ role: 'user', content: 'alone' }] })
  assert.equal(own.output.length, 2)
  await assert.rejects(client.responses.compact({ model: 'script/model' }), (e) => e.param === 'input')
  const forged = [{ type: 'compaction', encrypted_content: first.id }, { role: 'user', content: 'x' }]
  await assert.rejects(client.responses.create({ model: 'script/model', input: forged }), (e) => e.param === 'input[0].encrypted_content')
})

test('openai: functions of the client', async () => {
  const first = await client.responses.create({ model: 'script/model', input: 'weather?', tools })
  const call = first.output.find((i) => i.type === 'function_call')
  assert.deepEqual(JSON.parse(call.arguments), { city: 'Bern' })
  const given = { model: 'script/model', previous_response_id: first.id, tools, input: [{ type: 'function_call_output', call_id: call.call_id, output: 'sunny' }] }
  const second = await client.responses.create(given)
  assert.equal(second.output_text, 'the tool says sunny')
  // The same outputs again run nothing.
  const asked = model.asked.length
  assert.equal((await client.responses.create(given)).id, second.id)
  assert.equal(model.asked.length, asked)
  // A client that stores nothing resends what was said.
  const resent = await client.responses.create({
    model: 'script/model', store: false, tools,
    input: [{ role: 'user', content: 'weather?' }, { type: 'function_call', call_id: 'c1', name: 'get_weather', arguments: '{}' }, { type: 'function_call_output', call_id: 'c1', output: 'rain' }],
  })
  assert.equal(resent.output_text, 'the tool says rain')
  await assert.rejects(client.responses.retrieve(resent.id), OpenAI.NotFoundError)
})

test('openai: conversations', async () => {
  const conversation = await client.conversations.create({ metadata: { a: 'b' }, items: [{ role: 'user', content: 'before' }] })
  const response = await client.responses.create({ model: 'script/model', conversation: conversation.id, input: 'now' })
  assert.equal(response.output_text, 'heard now of 2')
  assert.equal(response.conversation.id, conversation.id)
  const texts = []
  for await (const item of client.conversations.items.list(conversation.id, { order: 'asc', limit: 2 })) texts.push(item.content[0].text)
  assert.deepEqual(texts, ['before', 'now', 'heard now of 2'])
  assert.deepEqual((await client.conversations.update(conversation.id, { metadata: { c: 'd' } })).metadata, { a: 'b', c: 'd' })
  await client.conversations.items.create(conversation.id, { items: [{ role: 'user', content: 'later' }] })
  await client.conversations.delete(conversation.id)
  await assert.rejects(client.conversations.retrieve(conversation.id), OpenAI.NotFoundError)
})

test('openai: background, cancel and errors', async () => {
  const response = await client.responses.create({ model: 'script/model', input: 'slow', background: true })
  assert.ok(['queued', 'in_progress'].includes(response.status))
  const cancelled = await client.responses.cancel(response.id)
  assert.equal(cancelled.status, 'cancelled')
  const done = await client.responses.create({ model: 'script/model', input: 'quick', background: true })
  const ended = await until(async () => {
    const now = await client.responses.retrieve(done.id)
    return now.status === 'completed' && now
  }, 'the response in the background')
  assert.equal(ended.output_text, 'heard quick of 1')

  const refusals = [
    [{ model: 'script/model', input: 'x', logit_bias: {} }, 'logit_bias'],
    [{ model: 'script/model', input: 'x', reasoning: { effort: 'low' } }, 'reasoning'],
    [{ model: 'script/model', input: 'x', tools: [{ type: 'web_search' }] }, 'tools'],
    [{ model: 'script/model', input: 'x', tool_choice: 'required' }, 'tool_choice'],
  ]
  for (const [body, param] of refusals) {
    await assert.rejects(client.responses.create(body), (e) => e instanceof OpenAI.BadRequestError && e.param === param && e.message.includes(param))
  }
  await assert.rejects(client.responses.create({ model: 'none/such', input: 'x' }), OpenAI.NotFoundError)
  const stranger = new OpenAI({ baseURL: `${server.url}/openai/v1`, apiKey: 'hf_wrong', maxRetries: 0 })
  await assert.rejects(stranger.responses.create({ model: 'script/model', input: 'x' }), OpenAI.AuthenticationError)
  const models = []
  for await (const m of client.models.list()) models.push(m.id)
  assert.ok(models.includes('offline/echo'))
})

test('openai: chat completions continue and fork', async () => {
  const ask = (messages, more = {}) => client.chat.completions.create({ model: 'script/model', messages, ...more })
  const one = [{ role: 'system', content: 'be brief' }, { role: 'user', content: 'first' }]
  const first = await ask(one)
  assert.equal(first.choices[0].message.content, 'heard first of 1')
  const two = [...one, first.choices[0].message, { role: 'user', content: 'second' }]
  const second = await ask(two)
  assert.equal(second.choices[0].message.content, 'heard second of 2')
  const session = (c) => c.id.slice('chatcmpl-'.length).split('_')[0]
  assert.equal(session(second), session(first))
  // An edited message is a fork.
  const edited = await ask([...one, first.choices[0].message, { role: 'user', content: 'edited' }])
  assert.equal(edited.choices[0].message.content, 'heard edited of 2')
  assert.notEqual(session(edited), session(first))
  const info = await server.call('GET', `/v1/sessions/${session(edited)}?view=info`)
  assert.equal(info.fork.sessionId ?? info.fork.id ?? info.parentId, session(first))

  let text = ''
  const stream = await ask(two, { stream: true, stream_options: { include_usage: true } })
  let usage
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? ''
    usage = chunk.usage ?? usage
  }
  assert.equal(text, 'heard second of 2')
  assert.equal(usage.total_tokens, 20)

  const functions = tools.map(({ type, ...f }) => ({ type, function: f }))
  const asked = await ask([{ role: 'user', content: 'weather now?' }], { tools: functions })
  const message = asked.choices[0].message
  assert.equal(asked.choices[0].finish_reason, 'tool_calls')
  const answered = await ask([{ role: 'user', content: 'weather now?' }, message, { role: 'tool', tool_call_id: message.tool_calls[0].id, content: 'snow' }], { tools: functions })
  assert.equal(answered.choices[0].message.content, 'the tool says snow')
  assert.equal(session(answered), session(asked))
})

test('openai: a request that is sent again runs no second turn', async () => {
  let lost = 0
  const flaky = new OpenAI({
    baseURL: `${server.url}/openai/v1`, apiKey: server.key, maxRetries: 2,
    fetch: async (url, init) => {
      const response = await fetch(url, init)
      if (lost++ > 0) return response
      await response.text()
      throw new Error('connection lost')
    },
  })
  for (const create of [
    (previous) => flaky.responses.create({ model: 'script/model', input: 'once', previous_response_id: previous }),
    () => flaky.responses.create({ model: 'script/model', input: 'once only' }),
    () => flaky.chat.completions.create({ model: 'script/model', messages: [{ role: 'user', content: 'once in a chat' }] }),
    async (previous) => assert.equal((await flaky.responses.compact({ model: 'script/model', previous_response_id: previous })).output.length, 2),
  ]) {
    const before = await client.responses.create({ model: 'script/model', input: 'before' })
    const asked = model.asked.length
    lost = 0
    await create(before.id)
    assert.equal(lost, 2)
    assert.equal(model.asked.length, asked + 1)
  }
})

test('openai: a node that is killed in the middle of an answer', async () => {
  const collect = async (stream, seen) => {
    for await (const event of stream) {
      seen.last = event.sequence_number ?? seen.last
      if (event.type === 'response.created') seen.id = event.response.id
      if (event.type === 'response.output_item.added') seen.texts.push('')
      if (event.type === 'response.output_text.delta') seen.texts.push(seen.texts.pop() + event.delta)
      if (event.type === 'response.completed') seen.final = event.response
    }
  }
  const seen = { texts: [] }
  const broken = assert.rejects(collect(await client.responses.create({ model: 'script/model', input: 'slow', stream: true }), seen))
  await until(() => seen.texts.at(-1)?.includes('two'), 'the first words')
  await server.kill()
  await broken
  model.held.length = 0 // nobody hears the rest of it
  await server.start()
  const resumed = collect(await client.responses.retrieve(seen.id, { stream: true, starting_after: seen.last }), seen)
  await model.goOn()
  await resumed
  // The model said the same again: the reader got the rest of it alone.
  assert.deepEqual(seen.texts, ['one two three'])
  assert.equal(seen.final.output_text ?? seen.final.output[0].content[0].text, 'one two three')

  // A chat completion that is sent again gets the answer of the same turn.
  const asked = model.asked.length
  const messages = [{ role: 'user', content: 'slow chat' }]
  const chat = await client.chat.completions.create({ model: 'script/model', messages, stream: true })
  let said = ''
  const lost = assert.rejects(async () => {
    for await (const chunk of chat) said += chunk.choices[0]?.delta.content ?? ''
  })
  await until(() => said.includes('two'), 'the first words of the chat')
  await server.kill()
  await lost
  model.held.length = 0 // nobody hears the rest of it
  await server.start()
  const again = client.chat.completions.create({ model: 'script/model', messages })
  await model.goOn()
  assert.equal((await again).choices[0].message.content, 'one two three')
  assert.equal(model.asked.length, asked + 2)
})
