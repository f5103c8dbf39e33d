import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { lastText, startModel, startServer } from './harness.js'

const model = await startModel((asked, say) => say(`heard ${lastText(asked)}`))
const server = await startServer({ model })
after(async () => {
  await server.end()
  model.end()
})

test('the scripted model answers through the program, also after a kill', async () => {
  const { sessionId } = await server.call('POST', '/v1/sessions', { definition: { name: 'a', model: 'script/model' } })
  const first = await server.call('POST', `/v1/sessions/${sessionId}/messages`, { text: 'one' })
  assert.equal(first.reply, 'heard one')
  await server.kill()
  await server.start()
  const second = await server.call('POST', `/v1/sessions/${sessionId}/messages`, { text: 'two' })
  assert.equal(second.reply, 'heard two')
})
