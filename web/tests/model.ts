// A model that answers by a script, spoken to as to any other provider.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startServer, type Server } from './harness'

export type Asked = { messages: { role: string; content?: unknown }[]; tools?: { function: { name: string } }[] }
/** What the model says; with a status it fails instead. */
export type Said = { status?: number; text?: string; calls?: { name: string; arguments: unknown }[] }

/** Answers requests in the way of OpenAI. Returns what a server needs in its environment to know it as script/model. */
export async function startModel(answer: (asked: Asked) => Said | Promise<Said>): Promise<{ env: Record<string, string>; end: () => void }> {
  let calls = 0
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk: Buffer) => (body += chunk.toString()))
    request.on('end', async () => {
      const said = await answer(JSON.parse(body || '{"messages":[]}') as Asked)
      if (said.status) {
        response.writeHead(said.status, { 'Content-Type': 'application/json' })
        response.end(JSON.stringify({ error: { message: said.text ?? 'it failed', type: 'invalid_request_error' } }))
        return
      }
      const tool_calls = said.calls?.map((c, index) => ({ index, id: `call_${++calls}`, type: 'function', function: { name: c.name, arguments: JSON.stringify(c.arguments) } }))
      const choice = { index: 0, delta: { role: 'assistant', content: said.text ?? '', tool_calls }, finish_reason: tool_calls ? 'tool_calls' : 'stop' }
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      response.end(`data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', model: 'model', choices: [choice], usage: { prompt_tokens: 1200, completion_tokens: 80, total_tokens: 1280 } })}\n\ndata: [DONE]\n\n`)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    env: { HOLDFAST_PROVIDER_SCRIPT_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` },
    end: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

/** The text of the last message of a person. */
export function lastText(asked: Asked): string {
  const last = asked.messages.findLast((m) => m.role === 'user')
  return typeof last?.content === 'string' ? last.content : JSON.stringify(last?.content ?? '')
}

/** A server whose model does what the last message says: "edit OLD NEW", "run COMMAND", "ask QUESTION", "write FILE TEXT", "hold" until release is called; then it says that it is done. */
export async function startWorkplace(store = ''): Promise<Server & { folder: string; release: () => void; end: () => Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-work-'))
  writeFileSync(join(folder, 'notes.txt'), 'one\ntwo\nthree\n')
  let release = (): void => {}
  const released = new Promise<void>((resolve) => (release = resolve))
  const model = await startModel(async (asked) => {
    if (asked.messages.at(-1)?.role === 'tool') return { text: 'It is done.' }
    const [, verb, rest = ''] = /\b(edit|run|ask|write|list|hold): ?(.*)/s.exec(lastText(asked)) ?? []
    const [first = '', ...others] = rest.split(' ')
    switch (verb) {
      case 'edit':
        return { calls: [{ name: 'file_edit', arguments: { path: 'notes.txt', old: first, new: others.join(' ') } }] }
      case 'write':
        return { calls: [{ name: 'file_write', arguments: { path: first, content: others.join(' ') } }] }
      case 'run':
        return { calls: [{ name: 'shell', arguments: { command: rest } }] }
      case 'ask':
        return { calls: [{ name: 'request_user_input', arguments: { question: rest, options: rest.includes(' or ') ? rest.split(' or ') : undefined } }] }
      case 'hold':
        await released
        break
      case 'list':
        return { calls: [{ name: 'task_list_create', arguments: { items: rest.split(', ').map((title) => ({ title, status: 'pending' })) } }] }
    }
    return { text: 'It is done.' }
  })
  const server = await startServer(model.env, ['--workspace', folder, '--allow-write', '--allow-shell'], store)
  const end = server.end
  return Object.assign(server, {
    folder,
    release: () => release(),
    end: async () => {
      await end()
      model.end()
      rmSync(folder, { recursive: true, force: true })
    },
  })
}

/** Starts a chat of the scripted model and says something. */
export async function startChat(server: Server, name: string, text: string): Promise<string> {
  const tools = ['file_edit', 'file_write', 'shell', 'request_user_input']
  const { sessionId } = await server.call<{ sessionId: string }>('POST', '/v1/sessions', { definition: { name: 'worker', model: 'script/model', tools }, name })
  await server.call('POST', `/v1/sessions/${sessionId}/messages`, { text })
  return sessionId
}
