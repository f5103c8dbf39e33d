// The examples of docs/clients.md run as they are there, but for the address of
// the server and the name of the program.
import * as acp from '@agentclientprotocol/sdk'
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { after, test } from 'node:test'
import { environment, lastText, program, startModel, startServer } from './harness.js'

const model = await startModel((asked, say) => void say(`heard ${lastText(asked)}`))
const server = await startServer({ model, agents: { helper: '---\nname: helper\nmodel: script/model\n---\nHelp.\n' }, env: { HOLDFAST_MODEL: 'script/model' } })
process.env.HOLDFAST_KEY = server.key
after(async () => {
  await server.end()
  model.end()
})

const text = readFileSync(join(import.meta.dirname, '..', 'docs', 'clients.md'), 'utf8')
const examples = [...text.matchAll(/^## (.*)$|```(\w+)\n([^]*?)```/gm)].reduce((found, [, heading, language, code]) => {
  if (heading) return [...found, { heading, blocks: [] }]
  found.at(-1).blocks.push({ language, code })
  return found
}, []).filter((e) => e.blocks.length > 0)

/** Runs an example and returns some of its variables. */
function runExample(code, names) {
  const body = code
    .replaceAll('http://127.0.0.1:8420', server.url)
    .replaceAll(/^import (\w+) from ('[^']+')$/gm, 'const { default: $1 } = await load($2)')
    .replaceAll(/^import (\{[^}]*\}) from ('[^']+')$/gm, 'const $1 = await load($2)')
  const AsyncFunction = (async () => {}).constructor
  return new AsyncFunction('load', `${body}\nreturn { ${names} }`)((name) => import(name))
}

const checks = {
  async OpenAI(code) {
    const { first, second } = await runExample(code, 'first, second')
    assert.deepEqual([first.output_text, second.output_text], ['heard hello', 'heard more'])
    assert.equal(second.previous_response_id, first.id)
  },
  async 'Vercel AI SDK'(code) {
    const { chat } = await runExample(code, 'chat')
    assert.equal(chat.error, undefined)
    assert.equal(chat.lastMessage.parts.find((p) => p.type === 'text').text, 'heard hello')
    assert.equal((await server.call('GET', '/v1/sessions/trip?view=info')).sessionId, 'trip')
  },
  async 'AG-UI'(code) {
    const { newMessages } = await runExample(code, 'newMessages')
    assert.equal(newMessages.at(-1).content, 'heard hello')
  },
  async 'Editors: the Agent Client Protocol'(code) {
    const { command, args } = JSON.parse(code).agent_servers.Holdfast
    assert.equal(command, 'holdfast')
    const child = spawn(program, args, { cwd: server.dir, env: environment(server.dir, { OPENAI_API_KEY: 'any', OPENAI_BASE_URL: model.env.HOLDFAST_PROVIDER_SCRIPT_URL }), stdio: ['pipe', 'pipe', 'inherit'] })
    const ended = new Promise((resolve) => child.once('exit', resolve))
    const { agent } = acp.client({ name: 'test' }).connect(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)))
    await agent.request(acp.methods.agent.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} })
    const { sessionId } = await agent.request(acp.methods.agent.session.new, { cwd: server.dir, mcpServers: [] })
    const { stopReason } = await agent.request(acp.methods.agent.session.prompt, { sessionId, prompt: [{ type: 'text', text: 'hello' }] })
    assert.equal(stopReason, 'end_turn')
    child.stdin.end()
    assert.equal(await ended, 0)
  },
  async 'MCP clients'(code) {
    const { client, structuredContent } = await runExample(code, 'client, structuredContent')
    assert.equal(structuredContent.reply, 'heard Do I need a coat in Oslo?')
    await client.close()
  },
}

test('every protocol has an example, and every example a test', () => {
  assert.deepEqual(examples.map((e) => e.heading), Object.keys(checks))
  for (const { heading, blocks } of examples) assert.equal(blocks.length, 1, `${heading} has one example`)
})

for (const { heading, blocks } of examples) {
  test(`the example of ${heading}`, () => checks[heading](blocks[0].code))
}
