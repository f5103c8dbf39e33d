import { expect, logIn, test } from './harness'

// Texts that would do something if they were taken for more than text.
const hostile = [
  '<script>window.taken = 1</script>',
  '<img src=x onerror="window.taken = 1">',
  '<svg onload="window.taken = 1"></svg>',
  '<a href="javascript:window.taken=1">click</a>',
  '<iframe srcdoc="<script>parent.taken = 1</script>"></iframe>',
  '<style>* { display: none }</style>',
  '[click](javascript:window.taken=1)',
  '[click](JaVaScRiPt:window.taken=1)',
  '[click](java\tscript:window.taken=1)',
  '[click](data:text/html,<script>window.taken=1</script>)',
  '[click](vbscript:x)',
  '[x]: javascript:window.taken=1\n\n[x]',
  '![pixel](https://elsewhere.example/pixel.png)',
  '![pixel](//elsewhere.example/pixel.png)',
  '<javascript:window.taken=1>',
  '`</code><script>window.taken=1</script>`',
  '```html\n</pre><script>window.taken=1</script>\n```',
  '| a |\n|---|\n| <img src=x onerror=window.taken=1> |',
  '{{constructor.constructor("window.taken=1")()}}',
  '${window.taken=1}',
  '>'.repeat(300) + ' deep',
  '*'.repeat(5000),
  '['.repeat(2000),
  '\u202Egnp.exe\u0000\u0007\u001b[31m',
  '&lt;b&gt; &amp;amp; &#x3c;script&#x3e;',
  '"><script>window.taken=1</script>',
  '{"n": 9007199254740993, "__proto__": {"taken": 1}, "constructor": 1}',
]

test('hostile texts are shown and do nothing', async ({ page, server }) => {
  const outside: string[] = []
  page.on('request', (r) => !r.url().startsWith(server.url) && !r.url().startsWith('data:') && outside.push(r.url()))
  page.on('dialog', (d) => void d.dismiss().then(() => outside.push('a dialog')))
  await logIn(page, server)
  const made = await server.call<{ sessionId: string }>('POST', '/v1/sessions', { definition: { name: 'echo' }, name: '<img src=x onerror=window.taken=1>' })
  for (const text of hostile) await server.call('POST', `/v1/sessions/${made.sessionId}/messages`, { text: `\n\n${text}\n\n` })
  for (const path of ['/sessions', `/sessions?q=${encodeURIComponent(`${hostile[0]} that-nobody-said`)}`, `/sessions/${made.sessionId}`]) {
    await page.goto(server.url + path)
    await expect(path.includes('q=') ? page.getByText('No session matches') : page.getByText('<img src=x onerror=window.taken=1>').first()).toBeVisible()
    if (path.endsWith(made.sessionId)) await expect(page.getByRole('article', { name: 'Agent' })).toHaveCount(hostile.length)
    const found = await page.evaluate(() => ({
      taken: 'taken' in window || 'taken' in {},
      elements: document.querySelectorAll('main script, main iframe, main style, main svg[onload], main [onerror], main img').length,
      links: [...document.querySelectorAll('main a')].map((a) => (a as HTMLAnchorElement).protocol).filter((p) => !['http:', 'https:', 'mailto:'].includes(p)),
    }))
    expect(found).toEqual({ taken: false, elements: 0, links: [] })
    for (const link of await page.locator('main article').getByText('click', { exact: true }).all()) await link.click()
    expect(await page.evaluate(() => 'taken' in window)).toBe(false)
  }
  expect(outside).toEqual([])
})

