// Where the page is. The path says which screen, the query what it shows: a
// link to what is seen can always be copied from the address bar.

/** The path that the page is served under, with a slash at both ends. */
export const base: string = import.meta.env.DEV ? '/' : new URL(/* @vite-ignore */ '..', import.meta.url).pathname

class Location {
  path = $state('/')
  query = $state.raw(new URLSearchParams())

  constructor() {
    this.read()
    addEventListener('popstate', () => this.read())
  }

  read(): void {
    const path = location.pathname
    this.path = path.startsWith(base) ? path.slice(base.length - 1) : path
    this.query = new URLSearchParams(location.search)
  }
}

export const here = new Location()

/** Returns the address of a path of the page. */
export function link(path: string): string {
  return base + path.replace(/^\//, '')
}

/** Goes to a path of the page, such as /sessions?q=tea. */
export function go(path: string, options: { replace?: boolean } = {}): void {
  if (options.replace) history.replaceState(null, '', link(path))
  else history.pushState(null, '', link(path))
  here.read()
  if (!options.replace) scrollTo(0, 0)
}

/** Sets or removes values of the query, without a new entry in the history. */
export function setQuery(values: Record<string, string | undefined>): void {
  const query = new URLSearchParams(here.query)
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || value === '') query.delete(name)
    else query.set(name, value)
  }
  const text = query.toString()
  go(here.path + (text === '' ? '' : `?${text}`), { replace: true })
}

/** Matches a path with a pattern such as /sessions/:ref, or returns undefined. */
export function match(pattern: string, path: string): Record<string, string> | undefined {
  const want = pattern.split('/')
  const have = path.replace(/(.)\/$/, '$1').split('/')
  if (want.length !== have.length) return undefined
  const params: Record<string, string> = {}
  for (const [i, part] of want.entries()) {
    const value = have[i] ?? ''
    if (part.startsWith(':')) {
      try {
        params[part.slice(1)] = decodeURIComponent(value)
      } catch {
        return undefined
      }
    } else if (part !== value) return undefined
  }
  return params
}

/** Follows links of the page without loading it again. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
  const target = event.target instanceof Element ? event.target.closest('a') : null
  if (!target || target.target !== '' || target.hasAttribute('download') || target.origin !== location.origin) return
  if (!target.pathname.startsWith(base) || target.pathname.startsWith(`${base}v1/`)) return
  event.preventDefault()
  go('/' + (target.pathname + target.search).slice(base.length))
}
