// OpenAI's client for Go: the stories are Go tests in openaigo, a module of its own.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { startRepeater, startServer } from './harness.js'

const model = await startRepeater()
const server = await startServer({ model })
const control = createServer(async (request, response) => {
  const actions = {
    '/restart': async () => {
      await server.kill()
      model.held.length = 0 // nobody hears the rest of it
      await server.start()
    },
    '/go-on': () => model.goOn(),
    '/asked': () => String(model.asked.length),
  }
  try {
    response.end((await actions[request.url]()) ?? '')
  } catch (err) {
    response.writeHead(500).end(String(err))
  }
})
await new Promise((resolve) => control.listen(0, '127.0.0.1', resolve))
after(async () => {
  control.closeAllConnections()
  control.close()
  await server.end()
  model.end()
})

test('openai-go: the stories of the client for Go', async () => {
  const env = {
    ...process.env,
    HOLDFAST_CLIENT_URL: `${server.url}/openai/v1/`,
    HOLDFAST_CLIENT_KEY: server.key,
    HOLDFAST_CLIENT_CONTROL: `http://127.0.0.1:${control.address().port}`,
  }
  // The client is large: it is compiled faster without optimisation.
  const args = ['test', '-count=1', '-v', '-gcflags=github.com/openai/...=-N -l', '.']
  const child = spawn('go', args, { cwd: join(import.meta.dirname, 'openaigo'), env, stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (said += chunk))
  const code = await new Promise((resolve) => child.once('close', resolve))
  assert.equal(code, 0, said)
  assert.equal(said.match(/^--- PASS/gm)?.length, 6, said)
  assert.doesNotMatch(said, /^--- SKIP/m)
})
