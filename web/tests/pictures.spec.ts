import type { Page } from '@playwright/test'
import { join } from 'node:path'
import { expect, expectFits, logIn, startServer, test } from './harness'
import { lastText, startModel } from './model'

// The pictures in docs are of the real page: HOLDFAST_PICTURES=1 takes them
// again. In any case the page must not scroll sideways, at 320 pixels as well.
const answers: [string, string][] = [
  ['Plan a weekend in Rome', 'Two days are enough for the **old centre**.\n\n1. Saturday: Forum, Colosseum, Trastevere\n2. Sunday: Vatican, then ice cream\n\n| day | walk | cost |\n|---|---|---|\n| Saturday | 9 km | €38 |\n| Sunday | 6 km | €27 |'],
  ['And if it rains?', 'Then begin with the museums:\n\n```sh\nholdfast sessions fork rome --at 4\n```\n\nKeep the Forum for the afternoon.'],
]

async function takePicture(page: Page, name: string): Promise<void> {
  if (process.env.HOLDFAST_PICTURES) await page.screenshot({ path: join(import.meta.dirname, '..', '..', 'docs', `${name}.png`) })
}

test('the samples show a run with a question and a task with an approval', async ({ page }) => {
  const server = await startServer({}, ['--demo'])
  try {
    await logIn(page, server)
    await page.goto(`${server.url}/waiting`)
    await expect(page.getByRole('listitem')).toHaveCount(2)
    for (const [name, colorScheme, text] of [
      ['A tweet, approved by you', 'light', 'Where the time went'],
      ['Repair the clock', 'dark', 'Waits for an approval'],
    ] as const) {
      await page.emulateMedia({ colorScheme })
      await page.goto(`${server.url}/sessions`)
      await page.getByRole('listitem').filter({ hasText: name }).getByRole('link').click()
      await expect(page.getByText(text).first()).toBeVisible()
      await takePicture(page, `page-${colorScheme === 'light' ? 'run' : 'task'}-${colorScheme}`)
      await page.setViewportSize({ width: 400, height: 800 })
      await expectFits(page)
      await page.setViewportSize({ width: 1280, height: 800 })
    }
  } finally {
    await page.close()
    await server.end()
  }
})

test('the page fits narrow and wide screens', async ({ page }) => {
  const model = await startModel((asked) => ({ text: answers.find(([q]) => lastText(asked).includes(q))?.[1] ?? 'Yes.' }))
  const server = await startServer(model.env)
  try {
    await logIn(page, server)
    for (const name of ['nightly report', 'support 4711', 'release notes', 'rome']) {
      await server.call('POST', '/v1/sessions', { definition: { name: 'assistant', model: 'script/model' }, name })
    }
    for (const [question] of answers) await server.call('POST', '/v1/sessions/rome/messages', { text: question })
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      for (const [path, text] of [
        ['/sessions', 'nightly report'],
        ['/sessions/rome', 'Then begin with the museums'],
      ] as const) {
        for (const width of [1280, 640, 320]) {
          await page.setViewportSize({ width, height: 800 })
          await page.goto(server.url + path)
          await expect(page.getByText(text).first()).toBeVisible()
          await expectFits(page)
          const name = `page-${path === '/sessions' ? 'sessions' : 'session'}-${colorScheme}`
          if (width === 1280 && name !== 'page-sessions-dark') await takePicture(page, name)
        }
      }
    }
  } finally {
    await page.close()
    await server.end()
    model.end()
  }
})
