import * as ai7 from 'ai'
import * as ai5 from 'ai5'
import * as ai6 from 'ai6'
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { startRepeater, startServer, until } from './harness.js'

const model = await startRepeater()
const agents = { helper: '---\nname: helper\nmodel: script/model\ntools: [file_write]\n---\nHelp.\n' }
const server = await startServer({ model, agents })
const { folder } = server
after(async () => {
  await server.end()
  model.end()
})

/** What a framework keeps of a chat. */
class State {
  status = 'ready'
  error
  constructor(messages = []) {
    this.messages = messages
  }
  pushMessage = (m) => void this.messages.push(m)
  popMessage = () => void this.messages.pop()
  replaceMessage = (i, m) => void (this.messages[i] = m)
  snapshot = (v) => structuredClone(v)
}

const tools = [{ name: 'get_weather', description: 'the weather', schema: { type: 'object' } }]

/** A chat of one version of the SDK, as useChat makes it. */
function newChat(sdk, version, id, { messages, ...more } = {}) {
  class Chat extends sdk.AbstractChat {}
  const query = version > 5 ? `?ai=${version}` : ''
  const transport = new sdk.DefaultChatTransport({
    api: `${server.url}/aisdk/helper${query}`,
    headers: { Authorization: `Bearer ${server.key}` },
    body: { tools },
    prepareReconnectToStreamRequest: ({ id }) => ({ api: `${server.url}/aisdk/helper/${id}/stream${query}` }),
  })
  return new Chat({ id, transport, state: new State(messages), onError: () => {}, ...more })
}

const textOf = (message) => message.parts.filter((p) => p.type === 'text').map((p) => p.text).join('|')

for (const [version, sdk] of [[5, ai5], [6, ai6], [7, ai7]]) {
  test(`aisdk ${version}: send, regenerate and resume an idle chat`, async () => {
    const chat = newChat(sdk, version, `chat-${version}`)
    await chat.sendMessage({ text: 'hello' })
    assert.equal(chat.error, undefined)
    assert.equal(textOf(chat.lastMessage), 'heard hello of 1')
    await chat.sendMessage({ text: 'more' })
    assert.equal(textOf(chat.lastMessage), 'heard more of 2')
    await chat.regenerate()
    assert.equal(textOf(chat.lastMessage), 'heard more of 2')
    assert.equal(chat.messages.length, 4)
    const { items } = await server.call('GET', `/v1/sessions/chat-${version}/messages?order=oldest&limit=100`).then((p) => ({ items: p.messages }))
    assert.deepEqual(items.map((m) => m.role), ['user', 'assistant', 'user', 'assistant'])
    await chat.resumeStream() // 204: nothing happens
    assert.equal(chat.messages.length, 4)
  })

  test(`aisdk ${version}: tools of the client`, async () => {
    const chat = newChat(sdk, version, `tools-${version}`, {
      sendAutomaticallyWhen: sdk.lastAssistantMessageIsCompleteWithToolCalls,
      onToolCall: ({ toolCall }) => void chat.addToolResult({ tool: toolCall.toolName, toolCallId: toolCall.toolCallId, output: 'sunny' }),
    })
    await chat.sendMessage({ text: 'weather?' })
    await until(() => chat.status === 'ready' && textOf(chat.lastMessage) !== '', 'the answer')
    assert.equal(chat.error, undefined)
    assert.equal(textOf(chat.lastMessage), 'the tool says sunny')
    assert.equal(chat.messages.length, 2)
  })
}

for (const [version, sdk] of [[6, ai6], [7, ai7]]) {
  test(`aisdk ${version}: an approval`, async () => {
    const chat = newChat(sdk, version, `approval-${version}`, { sendAutomaticallyWhen: sdk.lastAssistantMessageIsCompleteWithApprovalResponses })
    await chat.sendMessage({ text: `write file-${version}.txt` })
    const part = chat.lastMessage.parts.find((p) => p.state === 'approval-requested')
    assert.ok(part, JSON.stringify(chat.lastMessage))
    assert.ok(!existsSync(join(folder, `file-${version}.txt`)))
    await chat.addToolApprovalResponse({ id: part.approval.id, approved: true })
    await until(() => chat.status === 'ready' && textOf(chat.lastMessage) !== '', 'the answer')
    assert.equal(chat.error, undefined)
    assert.equal(readFileSync(join(folder, `file-${version}.txt`), 'utf8'), 'hello')
    assert.equal(chat.lastMessage.parts.find((p) => p.toolCallId === part.toolCallId).state, 'output-available')
  })
}

for (const [version, sdk] of [[5, ai5], [6, ai6], [7, ai7]]) {
  test(`aisdk ${version}: a node that is killed in the middle of an answer`, async () => {
    const chat = newChat(sdk, version, `killed-${version}`)
    const asked = model.asked.length
    const broken = chat.sendMessage({ text: 'slow' })
    await until(() => chat.lastMessage?.role === 'assistant' && textOf(chat.lastMessage).includes('two'), 'the first words')
    await server.kill()
    await broken
    assert.equal(chat.status, 'error')
    model.held.length = 0 // nobody hears the rest of it
    await server.start()
    const resumed = chat.resumeStream()
    await model.goOn()
    await resumed
    assert.equal(textOf(chat.lastMessage), 'one two three')
    assert.equal(chat.messages.length, 2)
    assert.equal(model.asked.length, asked + 2)
    await chat.sendMessage({ text: 'next' })
    assert.equal(textOf(chat.lastMessage), 'heard next of 2')
  })
}
